"""What the files of a run may hold: config.json, metrics.jsonl, summary.json, and the tree of a checkpoint."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ortho_ref.formats import Form, Least0, Sha256
from ortho_ref.losses import LOSSES, METRICS
from ortho_ref.training.task import JOINS

#: No counter of a run is larger, no size of a layer, no number of parameters.
MOST, WIDEST, LONGEST = 10**9, 10**6, 2**40

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]
Size: TypeAlias = Annotated[int, Meta(ge=1, le=WIDEST)]
Figures: TypeAlias = dict[str, float]
Tree: TypeAlias = dict[str, Any]


def fields(names: Any, form: Any) -> list[tuple[str, Any, Any]]:
    """Fields of one form, each of which may be missing; a name with a point is a field without it."""
    return [(name.replace(".", "_"), form | UnsetType, msgspec.field(default=UNSET, name=name)) for name in names]


Regularizers = msgspec.defstruct(
    "Regularizers",
    [
        *fields(("words", "inputs", "hidden", "outputs", "weights", "alpha", "beta"), Least0),
        ("weights_of", list[str] | UnsetType, UNSET),
    ],
    bases=(Form,),
)


class Network(msgspec.Struct):
    """The arguments of `models.network`, the options of the model among them."""

    name: str
    input_size: Size
    hidden_sizes: Annotated[list[Size], Meta(min_length=1, max_length=1000)]
    output_size: Size
    readout: Literal["every", "last"] | UnsetType = UNSET
    loss: Literal[tuple(LOSSES)] | UnsetType = UNSET  # type: ignore[valid-type]
    dropout: Least0 | UnsetType = UNSET
    embedding: Size | UnsetType | None = UNSET
    tied: bool | UnsetType = UNSET
    regularizers: Regularizers | UnsetType = UNSET  # type: ignore[valid-type]
    reader: Literal[tuple(JOINS)] | UnsetType = UNSET  # type: ignore[valid-type]


class Config(msgspec.Struct):
    """config.json, of which only `network` is looked at here."""

    network: Network | UnsetType = UNSET


Line = msgspec.defstruct(
    "Line",
    [
        ("iteration", Annotated[int, Meta(ge=1, le=MOST)]),
        ("loss", float),
        ("gradient_norm", Least0),
        ("learning_rates", Figures),
        ("steps_per_second", Least0),
        ("weights", dict[str, Figures]),
        *fields(("evaluation_loss", *METRICS), float),
    ],
    bases=(Form,),
)


class SealedLine(Line, kw_only=True):  # type: ignore[misc,valid-type,call-arg]
    """A line as it stands in metrics.jsonl."""

    sha256: Sha256


class Best(Form):
    """An evaluation's best, where, and what it was at the end."""

    at: Count
    final: float
    median_of_last_20: float
    minimum: float | UnsetType = UNSET
    maximum: float | UnsetType = UNSET


Summary = msgspec.defstruct(
    "Summary",
    [
        ("iterations", Count),
        ("parameters", Annotated[int, Meta(ge=0, le=LONGEST)]),
        ("baseline", float),
        ("evaluations", Count),
        ("evaluation_loss", Best),
        ("steps_per_second", Least0),
        *fields(METRICS, Best),
        *fields(("worst_defect", "worst_condition"), float),
        ("forced_resets", Count | UnsetType, UNSET),
    ],
    bases=(Form,),
)


class SealedSummary(Summary, kw_only=True):  # type: ignore[misc,valid-type,call-arg]
    """A summary as it stands in summary.json."""

    metrics_sha256: Sha256


class Pcg64(Form):
    """Where a PCG64 is."""

    state: int
    inc: int


class Generator(Form):
    """Where a numpy.random.Generator is."""

    bit_generator: Literal["PCG64"]
    state: Pcg64
    has_uint32: Annotated[int, Meta(ge=0, le=1)]
    uinteger: Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Generators(Form):
    """Of a run: that of the data, and that of dropout."""

    data: Generator
    dropout: Generator


class Interval(Form):
    """The losses since the last line of metrics."""

    total: float
    since: Count


class Average(Form):
    """The mean of the parameters, and when it began."""

    on: bool
    count: Count
    recent: list[float]
    best: float | None
    params: Tree


class State(Form):
    """The tree of a checkpoint: `training.Trainer.state`, and what a run adds."""

    settings: dict[str, float | None]
    iteration: Count
    params: Tree
    buffers: dict[str, Tree]
    optimizer: Tree
    carried: list[Any] | None
    generators: Generators
    interval: Interval
    best: float | None
    config_sha256: Sha256
    metrics: Tree  # the bytes of metrics.jsonl
    average: Average | UnsetType = UNSET
    engine: str | UnsetType = UNSET  # "fused" where there is none
