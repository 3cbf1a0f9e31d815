"""What each task is trained with unless the command line says otherwise: the NC-GRU paper's sections 4.1 to 4.7.

The paper's tables give hidden sizes and -1 counts by model; for the models it does not compare, the NC-GRU's are taken.
Parenthesis: its 200 epochs are read as the 20,000 updates of the released code.  Denoise: it names no -1 count for
scoRNN.  Text is not the paper's three-layer PTB run (section 4.5) but one that a laptop does in minutes.
T is the task's own default (tasks/).

Data sets.  mnist, permuted-mnist: uRNN's n = 512 and RMSprop's rate 1e-3; scoRNN's 170 with 17 -1s and A at 1e-4 from
its code; batch 128 and 70 passes (30,000 updates) are expRNN's code's; the other sizes ours.  har: SGORNN's 128, LSTM
64, batch 100, RMSprop, 300 passes of 73 batches, rate 1e-3, a tenth of it after 200 [sgornn:hyper]; for the gated
orthogonal models n = 64 is ours.

shortest-path: the GORU paper's batch 50, the middle of its grid of rates; n = 50 is that of Li et al.'s baselines, with
an embedding of 50, a batch of 10 and gradients clipped to 5 (--embedding 50 --batch 10 --clip value:5); a rotation by
FFT needs a power of two; 5,000 updates are those of their LSTM.  speech: the GORU paper's sizes; batch 32 and 1e-3 are
its choice for most models (LSTM and GRU 64 and 1e-2); 13,000 updates, and 130 between evaluations, are Wisdom's code's.

babi: the GORU paper gives no sizes; batch 32, an embedding of 50, n = 100 and 40 passes of 250 batches are those of
Keras's example, GORU's n is the next power of two; the rate is ours.  All three layers have the same n.

Language models: every choice is a line of the table in docs/language-models.md.  The models that a paper trains on a
task have its setting, NC-GRU's [ncgru:hyper], GORU's [goru:hyper], SGORNN's [sgornn:hyper]; those that no paper trains
on it have the NC-GRU's.  What the papers leave open is AWD-LSTM's, whose code NC-GRU's grew from.  Its windows have
random lengths, of T = 100 97.0 on average, of 70 67.75: a pass of 158,110, 46,479 and 26,107 tokens in a row is 1,630,
686 and 385 updates.
"""

from dataclasses import dataclass, field, replace

from ortho_ref.training.trainer import Record


@dataclass(frozen=True)
class Defaults:
    """What one task is trained with."""

    batch: int
    iterations: int
    # hidden size by model, or a tuple of one for each layer; a model that is not there has the NC-GRU's
    hidden: dict[str, int | tuple[int, ...]]
    # number of -1s by model, of every layer alike or a tuple
    negative_ones: dict[str, int | tuple[int, ...]] = field(default_factory=dict)
    lr: float = 1e-3
    lr_orthogonal: float | None = None  # that of a skew A; None: as lr
    reset_every: int = 50  # reset_every, eval_every: updates between exact inverses, and between evaluations
    eval_every: int = 100
    # embedding, tied: whether tokens become vectors as wide as what the readout reads; whether that is the readout's
    # weight too
    embedding: bool = False
    tied: bool = False
    options: Record = field(default_factory=dict)  # other options of a run
    of_size: Record = field(default_factory=dict)  # options of the model that go with its hidden size here
    models: dict[str, "Defaults"] = field(default_factory=dict)  # models whose setting is another, and it

    def hidden_of(self, model: str) -> int | list[int]:
        """The model's hidden size, or a list with one for each layer."""
        return _listed(self.hidden.get(model, self.hidden.get("nc-gru", 0)))

    def negative_ones_of(self, model: str) -> int | list[int] | None:
        """The model's number of -1s, or a list with one for each layer; None where no paper has it."""
        return _listed(self.negative_ones[model]) if model in self.negative_ones else None


def _listed(sizes: int | tuple[int, ...]) -> int | list[int]:
    return sizes if isinstance(sizes, int) else list(sizes)


def defaults_of(task: str, model: str) -> Defaults:
    """What a model is trained with on a task."""
    return DEFAULTS[task].models.get(model, DEFAULTS[task])


_MNIST = Defaults(
    batch=128,
    iterations=30_000,
    hidden={"nc-gru": 128, "urnn": 512, "scornn": 170, "lstm": 128, "exprnn": 170},
    negative_ones={"scornn": 17},
    lr_orthogonal=1e-4,
    eval_every=500,
)

# Language models of three layers [ncgru:hyper]: lengths of windows, and rates in proportion to them
_AWD: Record = {"windows": "random", "scale_rate": True}

# 4.5 and tables 3 and 8 of the GORU paper [goru:hyper]; 40 passes of 3,162 windows are ours
_GORU = Defaults(
    batch=32,
    iterations=126_480,
    hidden={"goru": 256, "gru-modrelu": 216, "urnn": 1024, "full-urnn": 1024, "eurnn": 1024, "ornn": 512},
    eval_every=3162,
    options={"length": 50, "optimizer": "rmsprop-tensorflow"},
)
_SLOWER = replace(_GORU, lr=1e-4)
_GORU_CHARACTERS = {
    "goru": _GORU,
    "gru-modrelu": replace(_GORU, options=_GORU.options | {"optimizer": "rmsprop-tensorflow:0.99"}),
    "urnn": _SLOWER,
    "full-urnn": _SLOWER,
    "eurnn": replace(
        _SLOWER, options=_SLOWER.options | {"optimizer": "rmsprop-tensorflow:0.5"}, of_size={"style": "fft"}
    ),
    "ornn": replace(_SLOWER, of_size={"reflections": 510}),
}

# 3.3 of the SGORNN paper [sgornn:hyper]; batch 100 is its code's; 300 passes of 30 batches
_SGORNN = Defaults(
    batch=100,
    iterations=9_000,
    hidden=dict.fromkeys(("sgornn", "vprnn", "fastrnn", "lstm"), 256),
    eval_every=30,
    embedding=True,
    options={
        "length": 300,
        "state": "zero",
        "optimizer": "rmsprop-keras",
        "schedule": "step:6000:0.1",
        "dropout_input": 0.3,
    },
)
_SGORNN_WORDS = {
    **dict.fromkeys(("sgornn", "vprnn", "lstm"), _SGORNN),
    "fastrnn": replace(_SGORNN, options=_SGORNN.options | {"model_options": {"activation": "relu"}}),
}

DEFAULTS = {
    "parenthesis": Defaults(
        batch=16,
        iterations=20_000,
        hidden={"lstm": 42, "gru": 50, "scornn": 110, "goru": 64, "nc-gru": 56},
        negative_ones={"scornn": 20, "nc-gru": 40},
        eval_every=500,
    ),
    "denoise": Defaults(
        batch=128,
        iterations=10_000,
        hidden={"lstm": 90, "gru": 100, "scornn": 200, "goru": 128, "nc-gru": 118},
        negative_ones={"nc-gru": 50},
    ),
    "adding": Defaults(
        batch=50,
        iterations=20_000,
        hidden={"lstm": 68, "gru": 70, "scornn": 190, "goru": 128, "nc-gru": 80},
        negative_ones={"scornn": 95, "nc-gru": 43},
    ),
    "copying": Defaults(
        batch=50,
        iterations=10_000,
        hidden={"lstm": 68, "gru": 78, "scornn": 190, "goru": 100, "nc-gru": 96},
        negative_ones={"scornn": 95, "nc-gru": 80},
        lr_orthogonal=1e-4,
        reset_every=20,
        eval_every=50,
    ),
    "text": Defaults(batch=32, iterations=3_000, hidden={"nc-gru": 256}, lr=2e-3, eval_every=500),
    "mnist": _MNIST,
    "permuted-mnist": _MNIST,
    "har": Defaults(
        batch=100,
        iterations=21_900,
        hidden={"nc-gru": 64, "goru": 64, "sgornn": 128, "vprnn": 128, "fastrnn": 128, "lstm": 64},
        eval_every=73,
        options={"optimizer": "rmsprop-keras", "schedule": "step:14600:0.1"},
    ),
    "ptb-char": Defaults(
        batch=32,
        iterations=163_000,
        hidden={
            "nc-gru": (430, 1000, 430),
            "lstm": (350, 880, 350),
            "gru": (415, 950, 415),
            "scornn": (500, 2000, 500),
        },
        negative_ones={"nc-gru": 50, "scornn": 50},
        lr=5e-4,
        reset_every=100,
        eval_every=1630,
        embedding=True,
        tied=True,
        options=_AWD | {"dropout_input": 0.15, "dropout_hidden": 0.15, "dropout_output": 0.15},
        models=_GORU_CHARACTERS,
    ),
    "ptb-word": Defaults(
        batch=20,
        iterations=343_000,
        hidden={"nc-gru": (400, 1150, 400)},
        negative_ones={"nc-gru": 50},
        lr=5e-4,
        reset_every=100,
        eval_every=686,
        embedding=True,
        tied=True,
        options=_AWD | {"dropout_input": 0.4, "dropout_hidden": 0.4, "dropout_output": 0.25},
        models=_SGORNN_WORDS,
    ),
    "wikitext-2": Defaults(
        batch=80,
        iterations=38_500,
        hidden={"nc-gru": (500, 1550, 500)},
        negative_ones={"nc-gru": (100, 310, 100)},
        lr=7e-4,
        reset_every=100,
        eval_every=385,
        embedding=True,
        tied=True,
        options=_AWD
        | {"dropout_words": 0.1, "dropout_input": 0.65, "dropout_hidden": 0.2, "dropout_output": 0.4}
        | {"alpha": 0.0008, "beta": 0.012},
    ),
    "shortest-path": Defaults(batch=50, iterations=5_000, hidden={"nc-gru": 50, "goru": 64}),
    "speech": Defaults(
        batch=32,
        iterations=13_000,
        hidden={"lstm": 50, "gru": 60, "goru": 64, "eurnn": 128, "ornn": 128, "urnn": 108, "nc-gru": 64},
        eval_every=130,
    ),
    "arrays": Defaults(batch=32, iterations=2_000, hidden={"nc-gru": 64}),
    "babi": Defaults(
        batch=32,
        iterations=10_000,
        hidden={"nc-gru": 100, "goru": 128},
        eval_every=250,
        options={"layers": 3, "embedding": 50},
    ),
}
