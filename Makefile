# The project's commands; `make help` lists them.
#
# Everything is installed into .venv, in the versions that requirements.lock pins; `make demo` installs no PyTorch.
# On Linux, pip's default PyTorch brings the CUDA libraries along; where there is no NVIDIA GPU, the CPU build is
# much smaller:
#
#     make test TORCH_INDEX=https://download.pytorch.org/whl/cpu
#
# .venv-light never has PyTorch: the tests look there whether captions are made without it.
#
# What captions need is installed with --no-compile: pip would compile 28 MB of Python, and a caption uses 7 of them.

PYTHON ?=
TORCH_INDEX ?=
SITE ?=

GOAL := $(or $(MAKECMDGOALS),demo)

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
PROOF := $(VENV)/.installed-proof
DOCS := $(VENV)/.installed-docs
LIGHT := .venv-light
WITHOUT_TORCH := $(LIGHT)/.installed
NODE_MODULES := web/node_modules/.installed

# As constraints, the lock holds a version for each package that any platform's PyTorch may ask for, and
# installs none that this one does not. The build back end is locked too, hence no build isolation.
PIP_OPTIONS := -m pip install --disable-pip-version-check --constraint requirements.lock \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
PIP_INSTALL := $(BIN)/python $(PIP_OPTIONS)
PIP_FAILED = { echo >&2; \
	echo "make: pip could not install what requirements.lock pins (its own message is above). Either" >&2; \
	echo "  - the package index could not be reached: only the first installation needs the network, or" >&2; \
	echo "  - $$($(BIN)/python --version) has no build of the pinned PyTorch, which is for Python 3.11 to 3.14:" >&2; \
	echo "    make clean, then make $(GOAL) PYTHON=/path/to/another/python3" >&2; \
	exit 1; }

# What compares digits, by what an environment says of the processor.
TRAINED := tests/training/test_steps.py tests/training/test_trainer.py
NUMERIC := tests/training/test_losses.py $(TRAINED) tests/model/test_decoder.py tests/model/test_unroll.py tests/backends/test_onnx_decoder.py tests/rerank/test_ngrams.py
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile

.PHONY: help demo test numeric acceptance docs lesson site release-check wheel proof models table1 paper bench web clean

help:
	@echo "make demo    caption the photos of examples/, pictures and a page to explore in demo/"
	@echo "make test    linter, type checker and tests (a few minutes)"
	@echo "make numeric the tests that compare digits, as on other processors (two minutes)"
	@echo "make acceptance  run what the documents say, the pages in a browser, captions without PyTorch (a few minutes)"
	@echo "make docs    build the documentation as a site, into build/docs/"
	@echo "make lesson  run the lesson on attention, examples/attention.ipynb (six minutes of a core); WRITE=yes: keep its output"
	@echo "make site    documentation and browser page as a web site, into build/site/; BASE=path puts them below a path, SITE=address is where they will be"
	@echo "make release-check  say what a release still needs"
	@echo "make wheel   build the package, install it in an empty environment and caption a photo there"
	@echo "make proof   the longer proofs"
	@echo "make models  train and score the shipped models anew (hours): FLICKR8K=folder, and COCO=folder for the everyday models"
	@echo "make table1  train and score the systems of the paper's Table 1 (hours): FLICKR8K=folder"
	@echo "make paper   train and score the paper's own recipe (a day of a core): FLICKR8K=folder; GRID=yes: and what λ_r does"
	@echo "make bench   measure how fast the code is on this machine (ten minutes), also into bench/bench.json; QUICK=yes: only see that it runs"
	@echo "make web     build the page that captions photos in the browser, into web/dist/; needs Node"
	@echo "make clean   remove .venv, .venv-light, build/, demo/ and what make web made"

demo: $(RUNTIME)
	@mkdir -p demo
	$(BIN)/sat caption examples/*.jpg --save-maps demo/maps
	$(BIN)/sat caption examples/motorcycle.jpg examples/riders.jpg --compare everyday-hard --output demo/page.html
	@echo "Pictures of every word are in demo/maps/. Open demo/page.html: two photos, each by soft and by hard attention."

# Bytecode is kept, whatever the environment says: the tests start many processes, and each would compile NumPy and
# pydantic anew.
test: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python research/tables.py --check
	$(BIN)/python docs/reference.py --check
	$(BIN)/python research/budgets.py
	OMP_NUM_THREADS=1 $(PYTEST)

# The same digits on every processor: with two threads, in both precisions, and with the instructions of AVX2 alone.
numeric: $(DEV)
	OMP_NUM_THREADS=2 SAT_PRECISION=float32 $(PYTEST) $(NUMERIC)
	OMP_NUM_THREADS=1 SAT_PRECISION=bfloat16 $(PYTEST) $(TRAINED)
	OMP_NUM_THREADS=1 SAT_PRECISION=float32 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(PYTEST) $(NUMERIC)

# The program as its users meet it: what the documents say with the shipped models, pages in a browser, captions in
# the environment without PyTorch, training in several processes; and the statistical proofs of hard attention.
acceptance: $(DEV) $(WITHOUT_TORCH)
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m acceptance --numprocesses logical --maxprocesses 4 --dist loadscope

# Warnings are errors: a broken link, or a picture that a built page does not find.
docs: $(DOCS)
	SITE="$(SITE)" $(BIN)/sphinx-build --builder html --fresh-env --fail-on-warning --keep-going --quiet --conf-dir docs . build/docs
	@echo "The site is in build/docs/: open build/docs/docs/index.html"

# Every cell must run, and what its hidden cells assert must hold. WRITE=yes keeps the new output in the notebook, and the
# strip at its top as docs/images/lesson.jpg: run it twice, so that the top has the new one.
lesson: $(DOCS)
	mkdir -p build
	OMP_NUM_THREADS=1 WRITE=$(WRITE) $(BIN)/jupyter-execute examples/attention.ipynb --timeout=1800 $(if $(WRITE),--inplace,--output=../build/attention.ipynb)

# What .github/workflows/pages.yml publishes: the documentation at the root, the page that captions under try/.
site: docs web
	rm -rf build/site
	mkdir -p "build/site/$(BASE)"
	cp -r build/docs/. "build/site/$(BASE)/"
	cp -r web/dist "build/site/$(BASE)/try"
	rm -rf "build/site/$(BASE)/.doctrees"

# Fails while an address, a date or a version is missing that a release needs.
release-check: $(DEV)
	$(BIN)/python research/release.py --check

# The wheel is built from the sdist, so that both are whole.
wheel: $(RUNTIME)
	rm -rf build/dist build/fresh
	mkdir -p build/dist
	$(BIN)/python -c "from setuptools.build_meta import build_sdist; build_sdist('build/dist')" > build/dist/log
	$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/dist build/dist/*.tar.gz
	$(BIN)/python -m venv build/fresh
	build/fresh/bin/python $(PIP_OPTIONS) --quiet --no-compile build/dist/*.whl
	cd build && fresh/bin/sat caption ../examples/gull.jpg --save-maps maps

proof: $(PROOF)
	$(BIN)/python -m pytest -m proof

# Models and evaluations of both go to runs/, where a second call goes on and neither makes what the other has made.
# INSTALL=yes also puts the new models and evaluations into this checkout.
models: $(DEV)
	@test -n "$(FLICKR8K)" || { echo "make: say where Flickr8k is: make models FLICKR8K=folder" >&2; exit 1; }
	$(BIN)/python research/shipped.py "$(FLICKR8K)" runs $(if $(COCO),--coco "$(COCO)") $(if $(INSTALL),--install)

# The table goes to research/notes/table1.md, the evaluations to research/results/ too.
table1: $(DEV)
	@test -n "$(FLICKR8K)" || { echo "make: say where Flickr8k is: make table1 FLICKR8K=folder" >&2; exit 1; }
	PYTHONPATH=research $(BIN)/python -m table1.make "$(FLICKR8K)" runs

# The models go to runs/, the evaluations to research/results/, the tables to README and docs.
paper: $(DEV)
	@test -n "$(FLICKR8K)" || { echo "make: say where Flickr8k is: make paper FLICKR8K=folder" >&2; exit 1; }
	PYTHONPATH=research $(BIN)/python research/paper.py "$(FLICKR8K)" runs $(if $(GRID),--grid)

bench: $(DEV)
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick --to build/bench)

# Any static file server may serve web/dist/; MODELS chooses the models. The tests of the page need web/node_modules too.
web: $(RUNTIME) $(NODE_MODULES)
	cd web && npm run build
	$(BIN)/python web/models.py web/dist/models $(MODELS)
	@echo "To try the page: $(BIN)/python -m http.server --directory web/dist, then http://localhost:8000"

clean:
	rm -rf $(VENV) $(LIGHT) build demo web/node_modules web/dist

$(RUNTIME): $(VENV)/pyvenv.cfg pyproject.toml requirements.lock
	@$(PIP_INSTALL) setuptools || $(PIP_FAILED)
	@$(PIP_INSTALL) --no-compile --no-build-isolation --editable . || $(PIP_FAILED)
	@touch $@

$(DEV): $(RUNTIME)
	@$(PIP_INSTALL) --no-build-isolation --editable '.[dev]' || $(PIP_FAILED)
	@touch $@

$(WITHOUT_TORCH): $(VENV)/pyvenv.cfg pyproject.toml requirements.lock
	@test -d $(LIGHT) || $(BIN)/python -m venv $(LIGHT) || { rm -rf $(LIGHT); exit 1; }
	@$(LIGHT)/bin/python $(PIP_OPTIONS) setuptools || $(PIP_FAILED)
	@$(LIGHT)/bin/python $(PIP_OPTIONS) --no-compile --no-build-isolation --editable '.[serve]' || $(PIP_FAILED)
	@touch $@

$(NODE_MODULES): web/package.json web/package-lock.json
	@command -v npm > /dev/null || { echo "make: npm is needed to build the page: install Node 20.19 or newer" >&2; exit 1; }
	cd web && npm ci
	@touch $@

$(DOCS): $(DEV)
	@$(PIP_INSTALL) --no-build-isolation --editable '.[docs]' || $(PIP_FAILED)
	@touch $@

# Ray, datasets and Spark are for the proofs alone.
$(PROOF): $(DEV)
	@$(PIP_INSTALL) --no-build-isolation --editable '.[proof]' || $(PIP_FAILED)
	@touch $@

# The first Python that is new enough and can make a virtual environment; PYTHON=... decides otherwise.
$(VENV)/pyvenv.cfg:
	@chosen=; recent=; seen=; \
	for python in $(or $(PYTHON),python3.13 python3.12 python3.11 python3.14 python3); do \
		version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
		seen="$$seen $$python ($$version)"; \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || continue; \
		recent=$$version; \
		if $$python -c 'import ensurepip, venv' 2>/dev/null; then chosen=$$python; break; fi; \
	done; \
	if [ -z "$$recent" ]; then \
		echo "make: Python 3.11 or newer is needed; found:$${seen:- none}." >&2; \
		echo "Install one, or say where it is: make $(GOAL) PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	if [ -z "$$chosen" ]; then \
		echo "make: Python $$recent is here, but its venv module is not." >&2; \
		echo "On Debian and Ubuntu: apt install python3-venv (or python$$recent-venv)" >&2; \
		exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$chosen"; \
	$$chosen -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
