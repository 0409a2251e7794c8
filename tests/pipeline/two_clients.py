"""The names of a project in which two clients were evaluated, one of them to be forgotten."""

WORD = "Zyxware"
FORGOTTEN = f"{WORD} & Söhne"
"""The client whose documents hold the canary; its name is written otherwise in JSON, in HTML and as a collection."""

OTHER = "globex"
