# A thin front door to CMake. On a fresh Debian 12, as root, `make demo` and `make check` do all set-up themselves.

BUILD := build
JOBS := $(shell nproc)
PREFIX := /usr/local

.PHONY: help packages build install package check check-asan check-oldest-kernel soak demo bench fuzz clean

help:
	@echo 'make demo         build profd, profile a sample workload, show what was hot'
	@echo 'make install      put it below PREFIX=$(PREFIX) and into /etc (DESTDIR= goes before both)'
	@echo 'make package      leave $(BUILD)/package/profd_VERSION_amd64.deb'
	@echo 'make build        leave $(BUILD)/profd and $(BUILD)/profctl'
	@echo 'make check        build and run every test (as root, on a kernel with BPF)'
	@echo 'make check-asan   the same under the address and undefined-behaviour sanitizers'
	@echo 'make check-oldest-kernel   the kernel tests on Linux 6.1, in QEMU (two minutes)'
	@echo 'make soak         kill profd a hundred times at random moments, and look at what it left'
	@echo 'make bench        measure profd beside perf'
	@echo 'make fuzz         fuzz every reader, FUZZ_SECONDS=60 each'

packages:
	@.ci/install-packages

build: packages
	@cmake -G Ninja -S . -B $(BUILD) --log-level=WARNING
	@cmake --build $(BUILD) -j $(JOBS)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

package: build
	@cd $(BUILD) && cpack -B package
	lintian --fail-on error,warning $(BUILD)/package/*.deb

check: build
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

# Without vptr: its check asks the kernel for a descriptor, and fails where a test has used them all up. And g++ takes what
# the sanitizers add for reads of what was never written. A line of "====" alone is a fault in a parser, which may not do
# the system calls of a report.
check-asan: packages
	@cmake -G Ninja -S . -B $(BUILD)-asan --log-level=WARNING -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_CXX_FLAGS='-O1 -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -Wno-maybe-uninitialized' \
	  -DCMAKE_EXE_LINKER_FLAGS=$(CURDIR)/tests/asan_options.cc
	@cmake --build $(BUILD)-asan -j $(JOBS)
	ctest --test-dir $(BUILD)-asan --output-on-failure -j $(JOBS) -LE 'lint|package'

check-oldest-kernel: build
	@tests/oldest_kernel/run $(BUILD)

soak: build
	$(BUILD)/e2e_test --gtest_filter='*KillAtAnyMoment*' --gtest_repeat=10

demo: build
	@tests/demo/run $(BUILD)

bench: build
	@tests/bench/run $(BUILD)

fuzz: build
	@tests/fuzz/run $(BUILD) $(or $(FUZZ_SECONDS),60)

clean:
	rm -rf $(BUILD) $(BUILD)-asan
