"""The API's manual at /docs: the OpenAPI document as a page of plain HTML, with nothing from another host."""

import re
from html import escape
from string import Template
from typing import Any

PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/viewer.css">
<link rel="stylesheet" href="/static/app.css">
<title>$title: the API</title>
<body class="sat-page">
<main class="manual">
<header class="sat-header"><h1>$title $version: the API</h1><nav><a href="/">The app</a></nav></header>
<p>$description The same for programs: <a href="/openapi.json">openapi.json</a>.</p>
$operations
</main>
</body>
</html>
""")

EXAMPLES = {
    "/v1/captions": "curl -F photos=@dog.jpg -F beam=5 -F attention=false {server}/v1/captions\n"
    "curl -F photos=@dog.jpg -F format=png -o looked.png {server}/v1/captions",
    "/v1/log-probabilities": "curl -F photos=@dog.jpg -F 'captions=a dog runs' -F 'captions=a cat sleeps' "
    "{server}/v1/log-probabilities",
    "/v1/models": "curl {server}/v1/models",
    "/healthz": "curl {server}/healthz",
}


def manual(document: dict[str, Any], server: str = "http://127.0.0.1:8000") -> str:
    """The page for an OpenAPI document; ``server`` is what its examples call."""
    operations = [
        operation(document, method, path, found, server)
        for path, methods in document["paths"].items()
        for method, found in methods.items()
    ]
    about = document["info"]
    return PAGE.substitute(
        title=escape(about["title"]),
        version=escape(about["version"]),
        description=escape(about["description"]),
        operations="\n".join(operations),
    )


def operation(document: dict[str, Any], method: str, path: str, found: dict[str, Any], server: str) -> str:
    """One thing to ask: how, with which fields, and what is answered."""
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>", f"<p>{prose(found['description'])}</p>"]
    if path in EXAMPLES:
        parts.append(f"<pre>{escape(EXAMPLES[path].format(server=server))}</pre>")
    for kind, content in found.get("requestBody", {}).get("content", {}).items():
        if kind == "multipart/form-data":
            parts += [f"<p>A form (<code>{kind}</code>), or the same as JSON with the photos in base64:</p>"]
            parts.append(fields(content["schema"]))
    answer = found["responses"]["200"]
    parts += [f"<p>Answered: {prose(answer['description'])}</p>"]
    parts += [described(document, answer["content"]["application/json"]["schema"])]
    refused = [
        f"<li><b>{status}</b> {escape(answer['description'])}</li>"
        for status, answer in found["responses"].items()
        if status != "200"
    ]
    if refused:
        parts.append(f"<details><summary>Refusals</summary><ul>{''.join(refused)}</ul></details>")
    return "<section>" + "\n".join(parts) + "</section>"


def described(document: dict[str, Any], schema: dict[str, Any]) -> str:
    """The tables of the objects that an answer is made of, each after the one that holds it."""
    while "items" in schema:
        schema = schema["items"]
    if "$ref" not in schema:
        return ""
    found = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    inner = [described(document, field) for field in found["properties"].values()]
    return f"<h3>{escape(found['title'])}: {prose(found['description'])}</h3>{fields(found)}" + "".join(inner)


def prose(text: str) -> str:
    """Text with its `code` marked."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def fields(schema: dict[str, Any]) -> str:
    """A table of an object's fields."""
    rows = [
        f"<tr><th scope=row><code>{escape(name)}</code></th><td>{escape(kind(field))}</td>"
        f"<td>{prose(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    ]
    return f"<table>{''.join(rows)}</table>"


def kind(field: dict[str, Any]) -> str:
    """A field's type in a few words."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(kind(one) for one in field["anyOf"] if one.get("type") != "null"))
    if "enum" in field:
        return ", ".join(field["enum"])
    if "$ref" in field:
        return str(field["$ref"].rpartition("/")[2])
    if field.get("contentMediaType"):
        return "file"
    told: str = field.get("type", "anything")
    if told == "array":
        inner = kind(field["items"]) if "items" in field else "numbers"
        return f"list of {inner}"
    if "minimum" in field:
        told += f", {field['minimum']:g} to {field['maximum']:g}"
    return told
