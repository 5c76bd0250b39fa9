"""`sat review`: people look at captions, the least trusted first, and mend them.

How it is built, from the files to the page:

1. `table` reads and writes the table, a CSV file: ``source, caption, confidence, to_check`` as `sat caption` writes it,
   with ``reviewed`` and ``model_caption`` beside them, and columns of anybody's own.
2. `journal` is a file of JSON lines beside the table. Each decision is appended to it and synced before it counts.
3. `store` has the rows in memory: what the table says, then what the journal says. Each change goes to the journal
   first, can be undone, and reaches the table with its next snapshot, which is written whole or not at all. A table
   that another program has changed meanwhile is merged by photo: where both changed, both captions are kept.
4. `deciding` says what accepting, editing, replacing and leaving out do to a row. It knows no file.
5. `order` sorts and filters rows, and `stopping` says how many of the rest are probably wrong.
6. `thumbnails` keeps small copies of photos in the user's cache. `background` captions photos in one thread, and saves
   in another.
7. `server` answers the page: Python's own HTTP server, for this machine alone, with a token in the address. A plain
   installation can run it. `page/` is the page.
8. `export` makes sidecars, JSON lines, an imagefolder, COCO's form or alt texts of a table.

What was done is said in ``reviewed``: "written" without seeing a caption, "edited", "accepted", "accepted in bulk" or
"left out". People who are shown suggestions accept more wrong ones than they would write, so these are not the same.
"""
