"""A Parquet file beside the same rows as NDJSON, in PyArrow and in DuckDB: `readers.py FILE.parquet FILE.ndjson`. Says what differs."""

import base64
import datetime
import decimal
import json
import math
import sys
import uuid

import duckdb
import pyarrow.parquet

decimal.getcontext().prec = 100
parquet, ndjson = sys.argv[1:]


class Number(str):
    """With its digits."""


def documents():
    with open(ndjson, encoding="utf-8") as file:
        return [json.loads(line, parse_float=Number, parse_int=Number) for line in file]


def is_same(read, said):
    if read is None or said is None:
        return read is said
    if isinstance(read, (list, tuple)):
        return len(read) == len(said) and all(map(is_same, read, said))
    if isinstance(read, bool):
        return read is said
    if isinstance(read, decimal.Decimal):
        return read == decimal.Decimal(said) and -read.as_tuple().exponent == len(said.partition(".")[2])
    if isinstance(read, int):
        return str(read) == said
    if isinstance(read, float):
        value = float(said)
        return read == value or math.isclose(read, value, rel_tol=1e-7) or (math.isnan(read) and math.isnan(value))
    if isinstance(read, bytes):
        return "\\x" + read.hex() == said
    if isinstance(read, uuid.UUID):
        return str(read) == said
    if isinstance(read, datetime.datetime):
        value = datetime.datetime.fromisoformat(said)
        return read == value
    if isinstance(read, datetime.date):
        return read.isoformat() == said
    if isinstance(said, str) and not isinstance(said, Number):
        return read == said or json_of(read) == said
    # A document, or a number that is text in the file.
    return read == said or json_of(read) == said


def json_of(text):
    try:
        return json.loads(text, parse_float=Number, parse_int=Number)
    except ValueError:
        return None


def compare(reader, names, rows):
    said = documents()
    wrong = [
        f"{reader}: row {i}, {name}: {value!r} is not {row_said[name]!r}"
        for i, (row, row_said) in enumerate(zip(rows, said, strict=True))
        for name, value in zip(names, row, strict=True)
        if not is_same(value, row_said[name])
    ]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return len(wrong)


table = pyarrow.parquet.read_table(parquet)
types = {field.name: str(field.type) for field in table.schema}
rows = [list(row.values()) for row in table.to_pylist()]
failures = compare("pyarrow", table.column_names, rows)

database = duckdb.connect()
database.execute("SET TimeZone = 'UTC'")
found = database.execute("SELECT * FROM read_parquet(?)", [parquet])
names = [column[0] for column in found.description]
kinds = {column[0]: str(column[1]) for column in found.description}
failures += compare("duckdb", names, found.fetchall())
print(json.dumps({"pyarrow": types, "duckdb": kinds}, ensure_ascii=False))
sys.exit(1 if failures else 0)
