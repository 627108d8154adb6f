# make help lists the targets: whatever follows ## is what it prints.

GO ?= go
# More flags for go test, such as -run=TestName or -v.
TESTFLAGS ?=

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
PROJECT := github.com/keysmith-io/keysmith/pkg/project
LDFLAGS := -s -w -X $(PROJECT).version=$(VERSION) -X $(PROJECT).commit=$(COMMIT)

# The race detector needs a C compiler. Where there is none, tests run without it and say so.
RACE := $(shell command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)

# The tools have a go.mod of their own, so that the operator's lists only what it needs.
TOOL    := $(GO) tool -modfile=$(CURDIR)/hack/tools/go.mod
# Starts a local cluster for a command, or uses the one that E2E_KUBECONFIG names.
CLUSTER := $(GO) run ./integration/controlplane/cmd/controlplane --

GENERATED = $(wildcard pkg/apis/*/*/zz_generated.deepcopy.go helm/keysmith/crds/*.yaml) helm/keysmith/README.md docs/settings.md docs/crd.md

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/keysmith
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/keysmith .

IMAGE ?= ghcr.io/keysmith-io/keysmith
# Every time in the image is that of the commit.
SOURCE_DATE_EPOCH ?= $(shell git show -s --format=%ct 2>/dev/null || echo 0)
BUILD_IMAGE = cd hack/image && SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' $(GO) run . -source='$(CURDIR)' -sbom='$(CURDIR)/bin/sbom' \
	-image='$(IMAGE)' -version='$(VERSION)' -commit='$(COMMIT)' -ldflags='$(LDFLAGS)' -o='$(CURDIR)/bin/keysmith-image.tar'

.PHONY: image
image: ## Build bin/keysmith-image.tar, an OCI archive for amd64 and arm64, and its SBOMs, without a daemon
	$(BUILD_IMAGE)

.PHONY: image-push
image-push: ## Build the image and push it as IMAGE, tagged with VERSION
	@$(BUILD_IMAGE) -push

.PHONY: image-test
image-test: ## Build the image twice, and look into it
	cd hack/image && $(GO) test $(TESTFLAGS) ./...

.PHONY: demo
demo: ## Show everything at work, on a local cluster and a simulated Aiven, and check it
	$(CLUSTER) $(GO) run ./integration/demo

.PHONY: bench
bench: ## Measure 300 applications on a local cluster
	$(CLUSTER) $(GO) run ./integration/bench $(if $(E2E_KUBECONFIG),,-whole-cluster)

.PHONY: growth
growth: ## Renew the table of docs/performance.md, which takes an hour and a half
	cd integration/growth && $(GO) build -o $(CURDIR)/bin/growth .
	cd integration/growth && $(CURDIR)/bin/growth

.PHONY: bench-framework
bench-framework: ## Measure the framework against a bare controller, and with 1 and 16 workers
	$(CLUSTER) $(GO) run ./integration/benchframework

# Every failure is printed with its seed, which draws the same operations and faults again.
DURATION ?= 10m
REPLICAS ?= 2

.PHONY: chaos
chaos: ## Let chaos loose on the operator, for DURATION, from SEED, and check that nothing is lost or leaked
	$(CLUSTER) $(GO) run $(RACE) ./integration/chaos/cmd/chaos -duration=$(DURATION) -replicas=$(REPLICAS) $(if $(SEED),-seed=$(SEED))

.PHONY: year
year: ## Let 50 applications live through a simulated year, from SEED, and check that no client is refused but as announced
	$(CLUSTER) $(GO) run ./integration/year/cmd/year $(if $(SEED),-seed=$(SEED))

.PHONY: test
test: cluster ## Run unit, contract, alert, image and integration tests and count them
	@$(if $(RACE),,echo 'There is no C compiler: the tests run without the race detector.' >&2)
	@$(GO) run ./hack/testcount $(MAKE) --no-print-directory --keep-going --silent -j1 unit contract alerts image-test integration oldest TESTFLAGS='-json $(TESTFLAGS)'

.PHONY: unit
unit: ## Run the unit tests
	$(GO) test $(RACE) $(TESTFLAGS) ./...

# Each target for so long, several at a time.
FUZZTIME ?= 60s
FUZZJOBS ?= 2

.PHONY: fuzz
fuzz: ## Fuzz each decoder of what others write
	@for p in $$($(GO) list ./flag ./pkg/... ./resource/... ./service/...); do \
		$(GO) test -list '^Fuzz' $$p | sed -n "s|^Fuzz.*|$$p &|p"; \
	done | xargs -P $(FUZZJOBS) -n 2 sh -c \
		'echo "== $$0 $$1" && $(GO) test -run "^$$" -fuzz "^$$1\$$" -fuzztime $(FUZZTIME) -parallel 1 "$$0" || exit 255'

.PHONY: contract
contract: ## Run both Aiven client libraries against the simulator
	cd pkg/aivensim/contract && $(GO) test $(RACE) $(TESTFLAGS) ./...

.PHONY: alerts
alerts: ## Try the alerts in Prometheus' own engine
	cd helm/test/alert && $(GO) test $(TESTFLAGS) ./...

# Folders of integration/test; all of them unless it is given.
FOLDER ?= ...

# The operator under test is built once. Each test has an operator, a namespace and an Aiven of its own, and waits more than it computes: three
# packages at a time keep two cores busy.
.PHONY: integration
integration: ## Run the integration tests on a local cluster, or on that of E2E_KUBECONFIG
	$(GO) build $(RACE) -o bin/keysmith-test .
	KEYSMITH_BINARY=$(CURDIR)/bin/keysmith-test $(CLUSTER) $(GO) test $(RACE) -tags=k8srequired -p=3 -timeout=20m $(TESTFLAGS) $(addprefix ./integration/test/,$(FOLDER))

# A patch release of the oldest Kubernetes that the chart takes, for what depends on the API server most.
OLDEST ?= 1.33.13
ON_OLDEST = E2E_KUBECONFIG= KEYSMITH_CONTROLPLANE_VERSION=$(OLDEST)

.PHONY: oldest
oldest: ## Run the tests of chart, schema and migration on the oldest Kubernetes
	$(ON_OLDEST) $(MAKE) --no-print-directory integration FOLDER='chart crd migration'

.PHONY: integration-kind
integration-kind: ## Run the integration tests, or those of FOLDER, on a kind cluster
	hack/integration-kind.sh

# The parts of the local cluster, helm and kubectl may have to be built, which no test should wait for.
.PHONY: cluster
cluster: ## Make sure that a local cluster can be started, and has what people use it with
	@$(CLUSTER) true
	@$(ON_OLDEST) $(CLUSTER) true
	@for tool in helm kubectl; do $(GO) -C hack/helm tool -n $$tool >/dev/null || exit; done

.PHONY: generate
generate: ## Generate deep copies and the CRD from pkg/apis, the table of the chart's values, and pages of docs
	$(TOOL) controller-gen object paths=./pkg/apis/...
	$(TOOL) controller-gen crd paths=./pkg/apis/... output:crd:dir=helm/keysmith/crds
	$(GO) run ./hack/chartvalues helm/keysmith
	$(GO) run ./hack/docs

.PHONY: verify
verify: ## Fail, naming the file, if a generated file is stale; it is up to date afterwards
	@old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && \
	tar cf - $(GENERATED) | tar xf - -C "$$old" && \
	$(MAKE) --no-print-directory --silent generate && \
	stale=0 && for f in $$($(MAKE) --no-print-directory --silent generated); do \
		diff -u "$$old/$$f" "$$f" || { stale=1; echo "$$f was stale: commit what make generate made of it" >&2; }; \
	done && exit $$stale
	@$(MAKE) --no-print-directory docs-verify

.PHONY: docs-verify
docs-verify: ## Fail on a stale page, a dead link or an example that is not its code
	$(GO) test ./hack/docs ./docs ./examples/...

.PHONY: generated
generated:
	@echo $(GENERATED)

.PHONY: lint
lint: ## Run the linters (the first time builds them, which takes minutes)
	$(TOOL) golangci-lint run ./...
	cd pkg/aivensim/contract && $(TOOL) golangci-lint run ./...
	cd hack/helm && $(TOOL) golangci-lint run ./...
	cd hack/image && $(TOOL) golangci-lint run ./...
	cd helm/test/alert && $(TOOL) golangci-lint run ./...
	cd integration/growth && $(TOOL) golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...

.PHONY: vuln
vuln: ## Look for known vulnerabilities that the code reaches
	$(TOOL) govulncheck ./...

.PHONY: clean
clean: ## Remove what make build made
	rm -rf bin
