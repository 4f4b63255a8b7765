"""The keys of a Kafka sink, under Hudi's own names where Hudi has one, and their meaning."""

from __future__ import annotations

from enum import StrEnum

from workers.options.option import Boolean, Integer, OneOf, Option, OptionSet, Setter, Text


class SinkMode(StrEnum):
    """The meaning of records: rows, or versions of rows."""

    APPEND = "append"
    """Each record is one row, whose key is where it came from; nothing is merged."""
    UPSERT = "upsert"
    """Records are versions of the table's rows; tombstones and the op column delete."""


class ValueFormat(StrEnum):
    """The encoding of the values of records."""

    JSON = "json"
    AVRO = "avro"
    CSV = "csv"


class KeyFormat(StrEnum):
    """The encoding of the keys of tombstones; keys of other records are not read."""

    AUTO = "auto"
    """What can be nothing else is JSON or Avro; the rest is plain text."""
    TEXT = "text"
    JSON = "json"
    AVRO = "avro"
    """With a schema id before it, by the schemas of the file."""


class SchemaSource(StrEnum):
    """The source of the columns among the fields of records."""

    TABLE = "table"
    """The columns that the table has; what else a record brings is left out and counted."""
    INFER = "infer"
    """As `table`, and new fields become columns, through the table's schema rules."""
    REGISTRY_FILE = "registry_file"
    """A JSON file of schema ids and Avro schemas, for values that begin with a schema id."""


class OnExpired(StrEnum):
    """The reaction when the topic no longer has the next offset."""

    FAIL = "fail"
    EARLIEST = "earliest"
    """Continue at the first available offset, and record in the commit what was lost."""


class OnBadRecord(StrEnum):
    """The reaction to a record that cannot become a row: stop the sink, or write a dead letter."""

    FAIL = "fail"
    DEAD_LETTER = "dead_letter"


ID_KEY = "hoodie.sink.id"
TOPIC_KEY = "hoodie.kafka.topic"
BOOTSTRAP_KEY = "bootstrap.servers"
CONNECTION_KEY = "connection"
CONTROL_KEY = "hoodie.kafka.control.topic"
INTERVAL_KEY = "hoodie.kafka.commit.interval.secs"
TIMEOUT_KEY = "hoodie.kafka.coordinator.write.timeout.secs"
EMPTY_KEY = "hoodie.kafka.commit.empty"
START_KEY = "hoodie.kafka.start.offsets"
EXPIRED_KEY = "hoodie.kafka.on.expired"
BUFFER_KEY = "hoodie.kafka.buffer.max.bytes"
PER_TASK_KEY = "hoodie.kafka.partitions.per.task"
MODE_KEY = "hoodie.sink.mode"
FORMAT_KEY = "hoodie.sink.format"
KEY_FORMAT_KEY = "hoodie.sink.key.format"
CSV_KEY = "hoodie.sink.csv.columns"
SOURCE_KEY = "hoodie.sink.schema.source"
FILE_KEY = "hoodie.sink.schema.file"
OP_KEY = "hoodie.sink.op.column"
BAD_KEY = "hoodie.sink.on.bad.record"
LETTERS_KEY = "hoodie.sink.dead.letter.path"
COMPACTION_KEY = "hoodie.kafka.compaction.async.enable"
CLUSTERING_KEY = "hoodie.kafka.clustering.async.enable"
GRACE_KEY = "hoodie.sink.graceful.timeout.secs"
_DAY_S = 86_400
SINK_OPTIONS = OptionSet(
    "sink option",
    Setter.SINK,
    (
        Option(ID_KEY, Text("name"), "", "Which sink of the table this is; the topic when empty."),
        Option(TOPIC_KEY, Text("name"), "", "The topic that is read; needed."),
        Option(BOOTSTRAP_KEY, Text("`host:port,...`"), "localhost:9092", "Kafka's brokers."),
        Option(
            CONNECTION_KEY,
            Text("name"),
            "",
            "The named connection with the brokers' addresses and credentials; in place of "
            "`bootstrap.servers` and the options of Kafka's clients.",
        ),
        Option(
            CONTROL_KEY,
            Text("name"),
            "hudi-control-topic",
            "The topic through which coordinator and participants agree.",
        ),
        Option(INTERVAL_KEY, Integer(1, _DAY_S), "60", "Seconds from one commit to the next."),
        Option(
            TIMEOUT_KEY,
            Integer(1, _DAY_S),
            "300",
            "Seconds that a commit waits for all participants before it is given up.",
        ),
        Option(EMPTY_KEY, Boolean(), "false", "Commit also when no record came."),
        Option(
            START_KEY,
            Text('`earliest`, `latest` or `{"0": 5}`'),
            "",
            "Where to begin; needed where the table has rows and no offsets of this sink.",
        ),
        Option(
            EXPIRED_KEY,
            OneOf(OnExpired),
            OnExpired.FAIL,
            "When the topic no longer has the next offset: stop, or continue at the first that is "
            "left and record in the commit what was lost.",
        ),
        Option(
            BUFFER_KEY,
            Integer(1 << 20, 4 << 30),
            str(64 << 20),
            "Bytes of records that a participant holds before it writes them.",
        ),
        Option(
            PER_TASK_KEY,
            Integer(0, 10_000),
            "0",
            "Partitions of a topic that one task reads; 0: as many as it takes for the free slots.",
        ),
        Option(
            MODE_KEY,
            OneOf(SinkMode),
            SinkMode.APPEND,
            "Each record is a row of its own (`append`), or a version of a row (`upsert`).",
        ),
        Option(FORMAT_KEY, OneOf(ValueFormat), ValueFormat.JSON, "Format of values."),
        Option(
            KEY_FORMAT_KEY,
            OneOf(KeyFormat),
            KeyFormat.AUTO,
            "Format of the keys of tombstones; keys of other records are not read.",
        ),
        Option(
            CSV_KEY,
            Text("columns"),
            "",
            "The columns of a line of CSV, in order; the table's when empty.",
        ),
        Option(
            SOURCE_KEY,
            OneOf(SchemaSource),
            SchemaSource.TABLE,
            "Which fields of records become columns.",
        ),
        Option(
            FILE_KEY,
            Text("path"),
            "",
            "The JSON file of schema ids and Avro schemas, for `registry_file`.",
        ),
        Option(
            OP_KEY,
            Text("field"),
            "",
            "The field that is `d` or `delete` for rows to delete.",
        ),
        Option(
            BAD_KEY,
            OneOf(OnBadRecord),
            OnBadRecord.DEAD_LETTER,
            "A record that cannot become a row stops the sink, or becomes a dead letter.",
        ),
        Option(
            LETTERS_KEY,
            Text("path"),
            "",
            "A directory outside the table for dead letters; `<table>-dead-letters` when empty.",
        ),
        Option(COMPACTION_KEY, Boolean(), "true", "The sink schedules compactions."),
        Option(CLUSTERING_KEY, Boolean(), "false", "The sink schedules clusterings."),
        Option(
            GRACE_KEY,
            Integer(1, 3600),
            "60",
            "Seconds that a stop waits for the transaction that is under way.",
        ),
        Option("security.protocol", Text("`SSL`, `SASL_SSL`, ..."), "", "Of Kafka's clients."),
        Option("sasl.mechanism", Text("`SCRAM-SHA-512`, ..."), "", "Of Kafka's clients."),
        Option("sasl.username", Text("name"), "", "Of Kafka's clients."),
        Option(
            "sasl.password.env",
            Text("name"),
            "",
            "The environment variable that holds the password; never the password itself.",
        ),
        Option(
            "ssl.ca.location",
            Text("path"),
            "",
            "The authority that signed the broker, below the node's `SLUICE_KAFKA_CA_FOLDER`.",
        ),
    ),
)
