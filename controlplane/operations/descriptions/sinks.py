"""Sinks: start, stop, relaunch, reset, and the replay of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from controlplane.operations.descriptions.field import (
    CONFIRMED,
    NEEDED_REASON,
    REASON,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.operations.descriptions.write import (
    BOOTSTRAP,
    BROKER_SECURITY,
    CONNECTION,
    SPARK_CONF,
    TOPIC,
)
from controlplane.tables.access import Permission

RELAUNCHES_MAX: Final = 20
TO_CHARS_MAX: Final = 60_000
LETTERS_MAX: Final = 1_000
_FROM: Final = "Source"
_INTO: Final = "Table"
HOW: Final = "Execution"
_SECURITY_KEYS: Final = {
    "protocol": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password_env": "sasl.password.env",
    "ca": "ssl.ca.location",
}
SINK_SECURITY: Final = [
    replace(field, key=_SECURITY_KEYS[field.name], of=()) for field in BROKER_SECURITY
]
SINK_PARTS: Final[Sequence[Field]] = (
    replace(TOPIC, key="hoodie.kafka.topic", of=()),
    replace(CONNECTION, argument="", of=()),  # The shell connects by its own environment.
    replace(BOOTSTRAP, key="bootstrap.servers", of=()),
    Field(
        "sink_id",
        "Sink id",
        "The topic's name when empty; it keeps the offsets.",
        key="hoodie.sink.id",
        chars_max=100,
        argument="--id",
        group=_FROM,
    ),
    Field(
        "control_topic",
        "Control topic",
        "For messages; hudi-control-topic when empty.",
        key="hoodie.kafka.control.topic",
        chars_max=249,
        group=_FROM,
    ),
    Field(
        "start_offsets",
        "Start offsets",
        'earliest, latest or {"0": 17}; only needed where the table has rows and no offsets '
        "of this sink.",
        key="hoodie.kafka.start.offsets",
        chars_max=2_000,
        group=_FROM,
    ),
    Field(
        "mode",
        "Mode",
        key="hoodie.sink.mode",
        choices=(
            Choice("append", "Append: one row per record"),
            Choice("upsert", "Upsert: by record key"),
        ),
        group=_INTO,
    ),
    Field(
        "format",
        "Value format",
        key="hoodie.sink.format",
        choices=(Choice("json", "JSON"), Choice("avro", "Avro"), Choice("csv", "CSV")),
        group=_INTO,
    ),
    Field(
        "source",
        "Column source",
        key="hoodie.sink.schema.source",
        choices=(
            Choice("table", "the table's columns"),
            Choice("infer", "the table's columns, plus new fields"),
            Choice("registry_file", "a file of schema ids"),
        ),
        group=_INTO,
    ),
    Field(
        "schema_file",
        "Schema id file",
        "Below a source root, for a file of schema ids.",
        key="hoodie.sink.schema.file",
        chars_max=700,
        group=_INTO,
    ),
    Field(
        "interval_s",
        "Commit interval (s)",
        key="hoodie.kafka.commit.interval.secs",
        type=FieldType.NUMBER,
        default=60,
        least=1,
        most=86_400,
        refusal="Enter how often it commits, in seconds.",
        argument="--interval",
        group=_INTO,
    ),
    Field(
        "on_bad_record",
        "On bad record",
        key="hoodie.sink.on.bad.record",
        choices=(
            Choice("dead_letter", "write to the dead letters"),
            Choice("fail", "stop the sink"),
        ),
        group=_INTO,
    ),
    *SINK_SECURITY,
)
START_SINK: Final = Description(
    name="sink",
    purpose="Run a sink into the table until it is stopped, with the options of docs/options.md.",
    address="tables/{slug}/sinks/",
    body="SinkStart",
    call="start_sink",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    command="sink run",
    fields=(
        Field(
            "sink_options",
            "More options, one key=value per line",
            "Options of the sink, of writes and of table services. Name the variable of a "
            "password.",
            type=FieldType.OPTIONS,
            is_needed=True,
            chars_max=4_000,
            may_be_blank=True,
            is_first=True,
            in_form="more",
            argument="--set",
            parts=SINK_PARTS,
            group=HOW,
        ),
        Field(
            "application",
            "Spark",
            "A sink uses its slots until it is stopped.",
            default="own",
            choices=(
                Choice("own", "a separate application"),
                Choice("connect", "the node's Spark server"),
            ),
            argument="--own-spark",
            group=HOW,
        ),
        replace(SPARK_CONF, in_form="", argument=""),
        Field(
            "relaunches_max",
            "Automatic restarts",
            "Times in a row, with growing pauses, 10 s to 10 min.",
            type=FieldType.NUMBER,
            default=0,
            least=0,
            most=RELAUNCHES_MAX,
            argument="",  # The shell runs a sink in its own process.
            group=HOW,
        ),
        replace(REASON, argument="", group=HOW),
    ),
)
STOP_SINK: Final = Description(
    name="sink.stop",
    purpose="Ask a sink to stop, whether or not the node runs it.",
    address="tables/{slug}/sinks/{sink_id}/stop/",
    body="SinkStop",
    call="stop_sink",
    answer="SinkSummary",
    permission=Permission.OPERATE,
    command="sink stop",
    takes_key=False,
    fields=(
        Field(
            "kind",
            "How",
            "graceful commits the open transaction first; hard aborts it.",
            default="graceful",
            choices=(Choice("graceful", "after the open transaction"), Choice("hard", "at once")),
            is_first=True,
            argument="--hard",
        ),
        REASON,
    ),
)
RELAUNCH_SINK: Final = Description(
    name="sink.relaunch",
    purpose="Run the newest operation of a sink again, with the same options.",
    address="tables/{slug}/sinks/{sink_id}/relaunch/",
    body="SinkRelaunch",
    call="relaunch_sink",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    command="sink relaunch",
    fields=(REASON,),
)
_TO: Final = Field(
    "to",
    "To",
    'earliest, latest, or {"0": 17} with the next offset of each partition.',
    chars_max=TO_CHARS_MAX,
    is_needed=True,
    is_first=True,
)
PLAN_RESET: Final = Description(
    name="sink.reset.plan",
    purpose="Plan a reset: the records that the sink reads again or skips. Nothing is changed.",
    address="tables/{slug}/sinks/{sink_id}/reset/plan/",
    body="SinkResetTarget",
    call="plan_sink_reset",
    answer="SinkResetPlan",
    permission=Permission.ADMINISTER,
    takes_key=False,
    fields=(_TO,),
)
RESET_SINK: Final = Description(
    name="sink.reset",
    purpose="Set the offsets of a sink as planned, in one commit without rows. A person types "
    "`table_name`.",
    address="tables/{slug}/sinks/{sink_id}/reset/",
    body="SinkResetRequest",
    call="reset_sink",
    answer="SinkReset",
    permission=Permission.ADMINISTER,
    command="sink reset",
    plan="SinkResetPlan",
    fields=(
        replace(_TO, is_of_plan=True),
        *(replace(field, is_of_plan=field.name == "plan_hash") for field in CONFIRMED),
    ),
)
REPLAY: Final = Description(
    name="replay",
    purpose="Send dead letters to their topic again, each once: by commit, by cause or by name.",
    address="tables/{slug}/sinks/{sink_id}/dead-letters/replay/",
    body="SinkReplay",
    call="replay_letters",
    answer="OperationDetail",
    permission=Permission.ADMINISTER,
    command="sink replay",
    fields=(
        Field(
            "instant", "Commit", "The commit that rejected the records.", chars_max=17, argument=""
        ),
        Field(
            "letters",
            "Dead letters",
            "`partition:offset` of each.",
            type=FieldType.LIST,
            default=list,
            chars_max=30,
            most=LETTERS_MAX,
            argument="--letter",
        ),
        Field("cause", "Cause", "Exactly as stored with the dead letters.", chars_max=2_000),
        NEEDED_REASON,
    ),
)
