"""Arrow types and Spark types, both ways, and what must hold on the wire between them.

Every Arrow column that a task yields has exactly the type that its declared Spark type has in
Arrow: Spark reads the buffers as declared and checks nothing.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from workers.errors import InvalidInput


def to_arrow(schema: object) -> pa.Schema:
    """A Spark schema as Arrow; timestamps with UTC.

    Raises InvalidInput for something else, or a type that Arrow does not know.
    """
    if not isinstance(schema, StructType):
        raise InvalidInput("schema is neither Arrow nor Spark", type=type(schema).__name__)
    try:
        arrow = to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=True)
    except PySparkException as error:
        raise InvalidInput("a column's type is not supported", reason=str(error)) from error
    assert isinstance(arrow, pa.Schema)
    return arrow


def to_spark(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema. Raises InvalidInput naming the type that Spark does not
    know.
    """
    try:
        spark: StructType = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except PySparkException as error:
        raise InvalidInput("spark cannot hold a column's type", reason=str(error)) from error
    return spark


def type_names(schema: StructType) -> dict[str, str]:
    """By column; of two schemas with the same ones rows can be handed on as they are."""
    return {field.name: field.dataType.simpleString() for field in schema}


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """What Arrow data must look like to be handed to Spark as `to_spark(schema)`."""
    return to_arrow(to_spark(schema))
