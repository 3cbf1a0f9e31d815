# Every target does all the set-up it needs, in .venv; floors in .venv-floors, device and nvrtc in .venv-device. Groups of
# dependencies are what pip knows from 25.1 on.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
FLOORS := .venv-floors
CUPY   ?= device
PIP    := pip>=25.1
SDIST  := ortho_ref-*.tar.gz
QUICK  := not install and not site and not release
DEVICE := .venv-$(CUPY)

# One BLAS thread: at these sizes two are slower as often as faster, and never the same twice.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: test quick install-test dist dist-test review device nvrtc fuzz floors mutants torture lint crosscheck demo site serve \
	site-test clean

test: $(VENV)/.test
	$(BIN)/python -m pytest -m "$(QUICK)" --numprocesses auto --maxprocesses 8 --dist loadfile

# The minute that a maintainer has: the mathematics, with few examples of each.
quick: $(VENV)/.test
	$(BIN)/python -m pytest -m "$(QUICK) and not slow" --numprocesses auto --maxprocesses 8 --dist loadfile \
		--hypothesis-profile=device tests/gradients tests/ortho_ref --ignore=tests/ortho_ref/conformance \
		--ignore=tests/ortho_ref/training --ignore=tests/ortho_ref/language

install-test: $(VENV)/.test
	$(BIN)/python -m pytest -m install

# What is released, in dist/: built from the sdist, checked as the index checks it, installed on each Python that is here.
dist: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python -m pytest -m release -s tests/test_release.py

# The sdist's tests, as somebody who unpacks it runs them: in a folder of its own, outside of any checkout, with its Makefile.
dist-test:
	folder=$$(mktemp -d) && tar --extract --gzip --strip-components 1 --directory $$folder --file dist/$(SDIST) && \
		$(MAKE) -C $$folder test && rm -rf $$folder

# The field's list of what a project should have; what is argued away stands in pyproject.toml.
review: $(VENV)/.release
	$(BIN)/repo-review .
	$(BIN)/zizmor --offline .github

# The device's tests under the real CuPy, on a device made of the host's memory (tests/device/hostcuda), and what
# gpu_check compares with the host. `make device CUPY=device-cuda12`: CuPy for CUDA 12.
device: $(DEVICE)/.$(CUPY)
	$(DEVICE)/bin/python -m pytest -p tests.device.hostcuda.plugin --device gpu --numprocesses auto --maxprocesses 8
	$(DEVICE)/bin/python -m tests.device.hostcuda.run scripts.gpu_check --out runs/device --scale 0.03 \
		--small --only versions --only agreement --only maps --only tasks

# NVIDIA's own compiler on every kernel, for three kinds of device.
nvrtc: $(DEVICE)/.nvrtc
	rm -rf runs/kernels
	HOSTCUDA_DUMP=runs/kernels $(DEVICE)/bin/python -m tests.device.hostcuda.run tests.device.stages
	$(DEVICE)/bin/python -m tests.device.nvrtc runs/kernels

# Other examples than the fixed ones; the seed is said first and, after a failure, last.
fuzz: $(VENV)/.test
	@seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; \
	again="the same examples again: make fuzz SEED=$$seed"; echo "$$again"; \
	$(BIN)/python -m pytest -m "$(QUICK)" --numprocesses auto --maxprocesses 8 \
		--hypothesis-profile=random --hypothesis-seed=$$seed || { echo "$$again"; exit 1; }

# With the oldest versions that pyproject.toml promises. PyTorch is not among them: what needs it is skipped.
floors: $(FLOORS)/.test
	$(FLOORS)/bin/python -m pytest -m "$(QUICK)" --numprocesses auto --maxprocesses 8

# Whether the tests tell the code from the code with a mistake in it: make mutants FOLDER=ortho_ref/cells
mutants: $(VENV)/.mutants
	$(BIN)/mutmut run '$(subst /,.,$(or $(FOLDER:.py=),ortho_ref)).*' && $(BIN)/mutmut results

# Kills, cuts, flips, full disks, hostile files and adapters, bad command lines; half an hour. The seed is said first.
torture: $(VENV)/.test
	@$(BIN)/python -m tests.torture --seed $${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

crosscheck: $(VENV)/.crosscheck
	$(BIN)/python -m pytest tests/crosscheck
	$(BIN)/python -m scripts.check_gradients
	$(BIN)/python -m scripts.maintain.make_vectors --check

demo: $(VENV)/.test
	$(BIN)/python -m scripts.demo --out runs/demo --jobs 2

# The pages of formula and code, and the docs around them, in build/site; a warning is an error.
site: $(VENV)/.docs
	$(BIN)/python -m scripts.maintain.site

serve: site
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site $${PORT:-8000}

# The built site, held to the code and opened in a browser: ORTHO_REF_BROWSER, or one on the path.
site-test: $(VENV)/.site site
	$(BIN)/python -m pytest -m site tests/site
	$(BIN)/python -m pytest tests/scripts/book

clean:
	rm -rf $(VENV) $(FLOORS) .venv-device .venv-device-cuda12 mutants build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(f"Python 3.11 or newer is needed; $(PYTHON) is {v}" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# A stamp for each group of dependencies: the environment follows pyproject.toml.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet '$(PIP)'
	$(BIN)/python -m pip install --quiet --editable . --group $*
	@touch $@

$(DEVICE)/.%: pyproject.toml
	[ -x $(DEVICE)/bin/python ] || $(PYTHON) -m venv $(DEVICE)
	$(DEVICE)/bin/python -m pip install --quiet '$(PIP)'
	$(DEVICE)/bin/python -m pip install --quiet --editable . --group $*
	@touch $@

$(FLOORS)/.test: pyproject.toml scripts/maintain/oldest_versions.py
	rm -rf $(FLOORS)
	$(PYTHON) -m venv $(FLOORS)
	$(PYTHON) -m scripts.maintain.oldest_versions test > $(FLOORS)/oldest.txt
	$(FLOORS)/bin/python -m pip install --quiet '$(PIP)'
	$(FLOORS)/bin/python -m pip install --quiet --constraint $(FLOORS)/oldest.txt --editable . --group test
	@touch $@
