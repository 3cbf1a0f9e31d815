"""Whose equations a model uses, as BibTeX: `ortho_ref.cite(layer)`.

The one list of the papers, and of what each is to be cited for.
"""

from collections.abc import Iterator

from ortho_ref.boundary import kind_of
from ortho_ref.cells import Cell
from ortho_ref.cells.by_name import name_of as name_of_cell
from ortho_ref.language.reader import Reader
from ortho_ref.language.regularizers import Regularizers
from ortho_ref.models import build
from ortho_ref.network import Network
from ortho_ref.parametrizations import Parametrization
from ortho_ref.parametrizations.by_name import name_of
from ortho_ref.recurrent import Recurrent

#: Key -> BibTeX.  The first four are the keys of equation tags.
PAPERS: dict[str, str] = {
    "ncgru": """@article{mucllari2024orthogonal,
  title   = {Orthogonal Gated Recurrent Unit with {Neumann-Cayley} Transformation},
  author  = {Mucllari, Edison and Zadorozhnyy, Vasily and Pospisil, Cole and Nguyen, Duc and Ye, Qiang},
  journal = {Neural Computation},
  year    = {2024},
  note    = {arXiv:2208.06496}
}""",
    "urnn": """@inproceedings{arjovsky2016unitary,
  title     = {Unitary Evolution Recurrent Neural Networks},
  author    = {Arjovsky, Martin and Shah, Amar and Bengio, Yoshua},
  booktitle = {International Conference on Machine Learning},
  year      = {2016},
  note      = {arXiv:1511.06464}
}""",
    "goru": r"""@article{jing2019gated,
  title   = {Gated Orthogonal Recurrent Units: On Learning to Forget},
  author  = {Jing, Li and Gulcehre, Caglar and Peurifoy, John and Shen, Yichen and Tegmark, Max and
             Solja{\v{c}}i{\'c}, Marin and Bengio, Yoshua},
  journal = {Neural Computation},
  year    = {2019},
  doi     = {10.1162/neco_a_01174}
}""",
    "sgornn": """@misc{sgornn2022,
  title  = {{SGORNN}: Combining Scalar Gates and Orthogonal Constraints in Recurrent Networks},
  author = {{Anonymous authors}},
  year   = {2022},
  note   = {Submission to the International Conference on Learning Representations}
}""",
    "scornn": """@inproceedings{helfrich2018orthogonal,
  title     = {Orthogonal Recurrent Neural Networks with Scaled {Cayley} Transform},
  author    = {Helfrich, Kyle and Willmott, Devin and Ye, Qiang},
  booktitle = {International Conference on Machine Learning},
  year      = {2018},
  note      = {arXiv:1707.09520}
}""",
    "ornn": """@inproceedings{mhammedi2017efficient,
  title     = {Efficient Orthogonal Parametrisation of Recurrent Neural Networks Using {Householder} Reflections},
  author    = {Mhammedi, Zakaria and Hellicar, Andrew and Rahman, Ashfaqur and Bailey, James},
  booktitle = {International Conference on Machine Learning},
  year      = {2017},
  note      = {arXiv:1612.00188}
}""",
    "eurnn": r"""@inproceedings{jing2017tunable,
  title     = {Tunable Efficient Unitary Neural Networks ({EUNN}) and their application to {RNNs}},
  author    = {Jing, Li and Shen, Yichen and Dub{\v{c}}ek, Tena and Peurifoy, John and Skirlo, Scott and
               LeCun, Yann and Tegmark, Max and Solja{\v{c}}i{\'c}, Marin},
  booktitle = {International Conference on Machine Learning},
  year      = {2017},
  note      = {arXiv:1612.05231}
}""",
    "full-urnn": """@inproceedings{wisdom2016full,
  title     = {Full-Capacity Unitary Recurrent Neural Networks},
  author    = {Wisdom, Scott and Powers, Thomas and Hershey, John and {Le Roux}, Jonathan and Atlas, Les},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2016},
  note      = {arXiv:1611.00035}
}""",
    "exprnn": r"""@inproceedings{lezcano2019cheap,
  title     = {Cheap Orthogonal Constraints in Neural Networks: A Simple Parametrization of the Orthogonal and
               Unitary Group},
  author    = {Lezcano-Casado, Mario and Mart{\'i}nez-Rubio, David},
  booktitle = {International Conference on Machine Learning},
  year      = {2019},
  note      = {arXiv:1901.08428}
}""",
    "fastrnn": """@inproceedings{kusupati2018fastgrnn,
  title     = {{FastGRNN}: A Fast, Accurate, Stable and Tiny Kilobyte Sized Gated Recurrent Neural Network},
  author    = {Kusupati, Aditya and Singh, Manish and Bhatia, Kush and Kumar, Ashish and Jain, Prateek and
               Varma, Manik},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2018},
  note      = {arXiv:1901.02358}
}""",
    "irnn": """@misc{le2015simple,
  title  = {A Simple Way to Initialize Recurrent Networks of Rectified Linear Units},
  author = {Le, Quoc V. and Jaitly, Navdeep and Hinton, Geoffrey E.},
  year   = {2015},
  note   = {arXiv:1504.00941}
}""",
    "lstm": r"""@article{hochreiter1997long,
  title   = {Long Short-Term Memory},
  author  = {Hochreiter, Sepp and Schmidhuber, J{\"u}rgen},
  journal = {Neural Computation},
  year    = {1997}
}""",
    "gru": r"""@inproceedings{cho2014learning,
  title     = {Learning Phrase Representations using {RNN} Encoder-Decoder for Statistical Machine Translation},
  author    = {Cho, Kyunghyun and van Merri{\"e}nboer, Bart and Gulcehre, Caglar and Bahdanau, Dzmitry and
               Bougares, Fethi and Schwenk, Holger and Bengio, Yoshua},
  booktitle = {Conference on Empirical Methods in Natural Language Processing},
  year      = {2014},
  note      = {arXiv:1406.1078}
}""",
    "awd-lstm": """@inproceedings{merity2018regularizing,
  title     = {Regularizing and Optimizing {LSTM} Language Models},
  author    = {Merity, Stephen and Keskar, Nitish Shirish and Socher, Richard},
  booktitle = {International Conference on Learning Representations},
  year      = {2018},
  note      = {arXiv:1708.02182}
}""",
}

#: Name of a cell -> keys.
CELLS: dict[str, tuple[str, ...]] = {
    "elman": ("urnn",),
    "fastrnn": ("sgornn", "fastrnn"),
    "gru_reset_after": ("goru", "gru"),
    "gru_reset_before": ("ncgru", "gru"),
    "lstm": ("lstm",),
}

#: Name of a parametrization -> keys.
PARAMETRIZATIONS: dict[str, tuple[str, ...]] = {
    "free": (),
    "scaled_cayley": ("ncgru", "scornn"),
    "neumann_cayley": ("ncgru", "scornn"),
    "exponential": ("sgornn", "exprnn"),
    "householder": ("goru", "ornn"),
    "tunable_rotations": ("goru", "eurnn"),
    "fft_rotations": ("goru", "eurnn"),
    "volume_preserving": ("sgornn",),
    "structured_unitary": ("urnn",),
    "geodesic_unitary": ("goru", "full-urnn"),
}

#: Name of a model -> keys of those who are to be cited for it beside its cell's and its parametrizations'.
MODELS: dict[str, tuple[str, ...]] = {"irnn": ("irnn",), "sgornn": ("sgornn",), "vprnn": ("sgornn",)}


def papers_of(model: object) -> tuple[str, ...]:
    """Keys, in `PAPERS`' order, of the papers whose equations a model uses; `cite` says what a model can be."""
    found = {key for part in _parts(model) for key in _keys(part)}
    return tuple(key for key in PAPERS if key in found)


def _parts(model: object) -> Iterator[object]:
    """A model, and all that it is made of."""
    model = build(model, 8, 8) if isinstance(model, str) else model
    yield model
    if isinstance(model, Network):
        for layer in model.layers:
            yield from _parts(layer)
    if isinstance(model, Recurrent):
        yield from (model.cell, *model.parametrizations.values())


def _keys(part: object) -> tuple[str, ...]:
    """Those of a part by itself."""
    if isinstance(part, Cell):
        own = CELLS.get(name_of_cell(part), ())
        return (*own, "urnn") if getattr(part, "activation", None) == "modrelu" else own
    if isinstance(part, Parametrization):
        return PARAMETRIZATIONS.get(name_of(part), ())
    if isinstance(part, Recurrent):
        return MODELS.get(part.name or "", ())
    if isinstance(part, Network):
        used = {"awd-lstm": part.regularizers != Regularizers(), "goru": isinstance(part, Reader)}
        return tuple(key for key in used if used[key])
    what = "a layer, a network, a cell, a parametrization, a model's name"
    raise TypeError(f"model is {kind_of(part)}; allowed: {what}")


def cite(model: object) -> str:
    """BibTeX of the papers whose equations a model uses; of a cell or a parametrization of your own there is none.

    Parameters
    ----------
    model : Recurrent, Network, Cell, Parametrization, or str
        A layer, a network of them, what they are made of, or a model's name, which has its default options then.

    Returns
    -------
    str
        Entries with an empty line between them; print it.
    """
    return "\n\n".join(PAPERS[key] for key in papers_of(model))
