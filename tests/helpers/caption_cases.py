"""Files of captions that were once read wrongly, or are damaged: what each should give, whoever reads it."""

import json


def table(*rows: str, header: str = "photo,caption") -> dict[str, str | bytes]:
    """A folder's captions.csv."""
    return {"captions.csv": "\n".join([header, *rows])}


def jsonl(*rows: str) -> dict[str, str | bytes]:
    """A folder's captions.jsonl."""
    return {"captions.jsonl": "\n".join(rows)}


WITH_SPLIT = "photo,caption,split"
ONE = '{"photo": "a.jpg", "text": "x"}'
TWO = ["a dog's tail", "two cats"]

TABLES = {  # the file, its lines, and its encoding
    "comma": ("Captions.CSV", ["photo,caption", 'a.jpg,"Ein Bär, groß"', "b.jpg,Öl", "./b.jpg,é", "c.jpg,x"]),
    "semicolon": ("captions.csv", ["Photo;Caption", "a.jpg;Ein Bär, groß", "b.jpg;Öl", "b.jpg;é", "c.jpg;x"], "cp1252"),
    "spreadsheet": (
        "captions.csv",
        ["sep=;", "photo;caption;;", "a.jpg;Ein Bär, groß;;", ";;;", "b.jpg;Öl;;", "b.jpg;é", "c.jpg;x;;"],
        "utf-8-sig",
    ),
    "tabs": ("captions.tsv", ["image\ttext", "a.jpg\tEin Bär, groß", "b.jpg\tÖl", "b.jpg\té", "c.jpg\tx"], "utf-16"),
    "tabs, without a mark": (
        "captions.csv",
        ["file\tdescription", "a.jpg\tEin Bär, groß", "b.jpg\tÖl", "b.jpg\té", "c.jpg\tx"],
        "utf-16-le",
    ),
    "several columns": (
        "captions.csv",
        ["id,photo,caption 1,caption_2", '7,a.jpg,"Ein Bär, groß",', "8,b.jpg,Öl,é", "9,c.jpg,x,"],
    ),
    "Kaggle's Flickr8k": ("captions.txt", ["image,caption", "a.jpg,Ein Bär, groß", "b.jpg,Öl", "b.jpg,é", "c.jpg,x"]),
    "Kaggle's Flickr30k, one row damaged": (
        "results.csv",
        ["image_name| comment_number| comment", "a.jpg| 0| Ein Bär, groß", "b.jpg| 0| Öl", "b.jpg| 1| é", "c.jpg| 0| x"]
        + ["c.jpg| 1| ."] * 7
        + ["b.jpg| 2   Of a row without its second bar"],
    ),
    "no first line": ("captions.csv", ['a.jpg,"Ein Bär, groß"', "b.jpg,Öl", "b.jpg,é", "c.jpg,x"]),
    "a token file": ("captions.txt", ["a.jpg#0\tEin Bär, groß", "b.jpg#0\tÖl", "b.jpg#1\té", "c.jpg#0\tx"]),
    "JSON lines": (
        "captions.jsonl",
        [
            '{"photo": "a.jpg", "caption": "Ein B\\u00e4r, groß"}',
            '{"photo": "b.jpg", "captions": ["Öl", "é"]}',
            '{"photo": "c.jpg", "text": "x"}',
        ],
    ),
}

# A caption as it is written, what is read of it, and how the note about it begins.
CLEANED = [
    (json.dumps(TWO), TWO, "1 caption with a list, each part of which is read as a caption"),
    (repr(TWO), TWO, "1 caption with a list"),
    ("['a dog' 'two cats'\n \"a cat\"]", ["a dog", "two cats", "a cat"], "1 caption with a list"),  # NumPy's
    ("('a dog', 'two cats')", ["a dog", "two cats"], "1 caption with a list"),
    ("a dog's tail | two cats|", TWO, "1 caption with |, each part of which is read as a caption"),
    ("a dog's tail\n\ntwo cats\n", TWO, "1 caption with line breaks"),
    ("[a dog, two cats]", ["[a dog, two cats]"], "to look at: 1 caption in [ ] that cannot be read as a list"),
    ("a &quot;dog&amp;#39;s&quot; tail &amp; R&D;", ['a "dog\'s" tail & R&D;'], "1 caption with HTML entities"),
    ("a <b>dog</b> runs<br/><3 x<end", ["a  dog  runs <3 x<end"], "1 caption with HTML tags, left out"),
    ("<start> a dog <end> <PAD>", ["a dog"], "1 caption with markers"),
    ("<s>a <unk> dog</s>", ["a   dog"], "1 caption with markers"),
    ("[CLS] a dog [SEP]", ["a dog"], "1 caption with markers"),
    ("<|startoftext|>a dog<|endoftext|>", ["a dog"], "1 caption with markers"),
    ("startseq a dog endseq", ["a dog"], "1 caption with markers"),
    ("a\u200b do\u00adg\ufeff می\u200cرود", ["a dog می\u200cرود"], "1 caption with invisible characters, left out"),
    ("cafe\u0301", ["caf\u00e9"], "1 caption with decomposed letters, composed"),
]

# What is in a folder, and what is said of it.
DAMAGED = [
    ({"Flickr8k.token.txt": "a.jpg#0\tA dog\na.jpg A\n"}, "line 2 has no photo and a tab, .* and is 'a.jpg A'"),
    (table(header="name;caption"), "the first line must be photo,caption"),
    (table(header="photo;caption;text;caption"), "names a column twice"),
    (table("a.jpg,A, B,train", header=WITH_SPLIT), "line 2 must have the cells photo, caption, split"),
    ({"captions.csv": "sep=;\nphoto;caption\na.jpg\n"}, r"line 3 must have the cells photo, caption .*semicolon"),
    (table("a.jpg,A dog,spare", header=WITH_SPLIT), "line 2 has the split 'spare'; use train, val, test"),
    ({"captions.tsv": 'photo\tcaption\na.jpg\t"a" dog\n'}, r"captions\.tsv: line 2 is damaged"),
    (table('a.jpg,"A\ndog"', 'b.jpg,"A cat', 'a.jpg,A "big" dog'), "line 4 is damaged: .*; close the quotes of the"),
    (table('a.jpg,"a dog', "b.jpg,a cat", 'c.jpg,a bird"'), "line 2: a pair of quotes begins in this row"),
    ({"captions.csv": "photo,caption\na.jpg,ä\n".encode() + b"b.jpg,\xe4\n"}, r"line 3 is damaged .*UTF-8"),
    ({"captions.csv": "photo,caption\na.jpg,x\n".encode("utf-16")[:-3]}, r"is damaged .*UTF-8"),
    (jsonl("[1]"), r"an entry must be an object .* and is 1; looked for"),
    (jsonl('{"photo": 3, "caption": "x"}'), r"line 1: 'photo' must be a text, and is 3"),
    (jsonl(ONE, "[1]"), r"line 2 must be an object like .* and is \[1\]"),
    (jsonl(ONE, "{"), r"line 2 is not valid JSON"),
    (jsonl(ONE, '{"photo": "b.jpg"}'), r"line 2: 'caption' must be a text"),
    (jsonl('{"photo": "a.jpg", "caption": [3]}'), r"'caption' must be a text or a list of texts"),
    (jsonl('{"photo": "a.jpg", "image": "b", "text": "x"}'), r"names the photo twice: as photo and"),
    (jsonl('{"photo": "a.jpg", "text": "\\ud83d"}'), r"holds half of a character"),
    (jsonl('{"photo": "a.jpg", "text": "x", "split": "val"}', ONE), "line 2: some lines have a split and others"),
]


def records(*entries: dict[str, object]) -> str:
    """JSON Lines."""
    return "\n".join(map(json.dumps, entries))


def coco(images: dict[object, str], annotations: list[dict[str, object]]) -> str:
    """A file in COCO's form, of images by their ids."""
    listed = [{"id": number, "file_name": name} for number, name in images.items()]
    return json.dumps({"images": listed, "annotations": annotations})


# A file of captions, its content, the captions of each photo, and what the notes say, if anything.
FORMS = {
    "text and caption": (
        "captions.csv",
        "image,text,caption\na.jpg,SALE 50%,a shop\nb.jpg,MENU,a wall\n",
        {"a.jpg": ["a shop"], "b.jpg": ["a wall"]},
        "not used: text of captions.csv",
    ),
    "text and description in JSON": (
        "captions.jsonl",
        records({"image": "a.jpg", "text": "SALE", "description": "a shop"}, {"image": "b.jpg", "description": "x"}),
        {"a.jpg": ["a shop"], "b.jpg": ["x"]},
        "not used: text of captions.jsonl",
    ),
    "marks in a table": (
        "captions.csv",
        "photo,caption,is_rejected\na.jpg,a shop,False\na.jpg,no idea,TRUE\nb.jpg,a wall,nan\n",
        {"a.jpg": ["a shop"], "b.jpg": ["a wall"]},
        "left out: 1 caption that the file says not to use: 'is_rejected' (1)",
    ),
    "marks in JSON": (
        "captions.jsonl",
        records(
            {"photo": "a.jpg", "caption": "no idea", "approved": False},
            {"photo": "a.jpg", "caption": "a shop", "approved": True},
            {"photo": "b.jpg", "caption": ["no", "idea"], "precanned": 1},
        ),
        {"a.jpg": ["a shop"]},
        "left out: 3 captions that the file says not to use: 'precanned' (2), 'approved' (1)",
    ),
    "VizWiz": (
        "captions_all.json",
        coco(
            {1: "a.jpg", 2: "b.jpg"},
            [
                {"image_id": 1, "caption": "a shop", "is_rejected": False, "is_precanned": False},
                {"image_id": 1, "caption": "no idea", "is_rejected": True, "is_precanned": True},
                {"image_id": 2, "caption": "spam", "is_rejected": True, "is_precanned": False},
            ],
        ),
        {"a.jpg": ["a shop"]},
        "left out: 2 captions that the file says not to use: 'is_rejected' (2), 'is_precanned' (1)",
    ),
    "two languages": (
        "captions.csv",
        "photo,caption,lang,source\na.jpg,a dog,en,x\na.jpg,ein Hund,de,x\n",
        {"a.jpg": ["a dog", "ein Hund"]},
        "to look at: captions differ in the field lang, and all are read: 'en' (1), 'de' (1)",
    ),
    "an error instead of a caption": (
        "captions.csv",
        "source,caption,error\na.jpg,a dog,\nb.jpg,,damaged\n",
        {"a.jpg": ["a dog"]},
        "1 photo with an error instead of a caption: b.jpg (damaged)",
    ),
    "the caption first": (
        "captions.tsv",
        "a dog, running\ta.jpg\na cat\tb.jpg\n",
        {"a.jpg": ["a dog, running"], "b.jpg": ["a cat"]},
        "",
    ),
    "the caption first, with commas": (
        "captions.csv",
        '"a dog, running",a.jpg\na cat, a mat,b.jpg\n',
        {"a.jpg": ["a dog, running"], "b.jpg": ["a cat, a mat"]},
        "",
    ),
    "LLaVA": (
        "captions.json",
        json.dumps(
            [
                {
                    "id": "7",
                    "image": "a.jpg",
                    "conversations": [
                        {"from": "human", "value": "<image>\nDescribe it."},
                        {"from": "gpt", "value": "A dog."},
                        {"from": "human", "value": "Its color?"},
                        {"from": "gpt", "value": "Brown."},
                    ],
                },
                {"image": "b.jpg", "messages": [{"role": "assistant", "content": "A cat."}]},
            ]
        ),
        {"a.jpg": ["A dog."], "b.jpg": ["A cat."]},
        "not used: answers after the first of captions.json",
    ),
    "PaliGemma": (
        "captions.jsonl",
        records(
            {"image": "a.jpg", "prefix": "caption en", "suffix": "a dog"},
            {"image": "b.jpg", "prefix": "caption de", "suffix": "eine Katze"},
        ),
        {"a.jpg": ["a dog"], "b.jpg": ["eine Katze"]},
        "captions differ in the field prefix, and all are read: 'caption en' (1), 'caption de' (1)",
    ),
    "Flickr30k of the hub": (
        "flickr_annotations_30k.csv",
        'raw,sentids,filename,img_id\n"[""Two men."", ""A yard""]","[0, 1]",a.jpg,0\n"[""A girl""]",[2],b.jpg,1\n',
        {"a.jpg": ["Two men.", "A yard"], "b.jpg": ["A girl"]},
        "2 captions with a list, each part of which is read as a caption",
    ),
    "ids that are texts": (
        "captions_all.json",
        coco(
            {"7": "a.jpg", "x-8": "b.jpg"},
            [{"image_id": 7, "caption": "a dog"}, {"image_id": "x-8", "caption": "a cat"}],
        ),
        {"a.jpg": ["a dog"], "b.jpg": ["a cat"]},
        "",
    ),
}
