"""Run `sat` in this process."""

from builders import SIZES
from click.testing import CliRunner, Result

from show_attend_tell.cli import main
from show_attend_tell.files import read_json as read_json  # for the tests


def sat(*arguments: object, code: int = 0, stdin: bytes = b"") -> Result:
    """Run a command that must end with that exit code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


def settings(**changes: object) -> list[str]:
    """The options --set of `sat train` that make a training take seconds."""
    small = {f"decoder.{name}": size for name, size in SIZES.items()}
    values = {**small, "batch_size": 4, "visual_ngrams": "false", **changes}
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


def refused(*arguments: object, code: int | None = None) -> str:
    """Run a command that must end with one line for the user, after progress bars at most; return it."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code != 0 and result.exit_code == (code or result.exit_code)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.output
    *bars, line = (line for line in result.stderr.splitlines() if line.strip())
    assert line.startswith("sat: ") and all("|" in bar for bar in bars), result.stderr
    assert result.stderr.endswith(f"{line}\n")
    return line
