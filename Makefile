# A thin front door to CMake. On a fresh Debian 12, as root, each target first installs the packages that it needs.

BUILD := build
JOBS := $(shell nproc)
PREFIX := /usr/local
FUZZ_SECONDS := 60
ATTACK_SECONDS := 1800
SOAK_SECONDS := 7200

CONFIGURE := cmake -G Ninja -S . --log-level=WARNING
COMPILE := cmake --build $(BUILD) -j $(JOBS) --target

.PHONY: help build demo install package image tests check lint check-asan check-tsan check-kernels check-image
.PHONY: check-fleet check-pythons soak attack bench names-oracle fuzz clean configured configured-tests

help:
	@echo 'The times are those of 2 cores, and of the first run where a later one is shorter.'
	@echo
	@echo 'make demo         builds profd, profiles a sample workload and shows what was hot (4 min)'
	@echo 'make build        leaves $(BUILD)/profd and $(BUILD)/profctl (4 min)'
	@echo 'make install      puts profd below PREFIX=$(PREFIX) and its settings into /etc; DESTDIR= goes before both (4 min)'
	@echo 'make package      leaves $(BUILD)/package/profd_VERSION_amd64.deb (5 min)'
	@echo 'make image        leaves $(BUILD)/profd-VERSION.oci.tar, the container image for docs/kubernetes.md (5 min)'
	@echo 'make tests        builds every test, and configures $(BUILD) for one test target at a time (20 min)'
	@echo 'make check        builds and runs every test, as root, on a kernel with BPF (25 min)'
	@echo 'make lint         checks sources, documents and the package: clang-tidy, format, layers and more (12 min)'
	@echo 'make bench        measures profd beside perf (40 min)'
	@echo 'make names-oracle   compares the names of 100,000 addresses with llvm-symbolizer (10 min)'
	@echo 'make fuzz         fuzzes every reader, FUZZ_SECONDS=$(FUZZ_SECONDS) each (20 min)'
	@echo 'make soak         kills profd a hundred times at random moments; then a mixed load of SOAK_SECONDS=$(SOAK_SECONDS),'
	@echo '                  in which neither memory nor descriptors may grow (150 min)'
	@echo 'make attack       attacks profd as unprivileged users, at the end in all ways at once for'
	@echo '                  ATTACK_SECONDS=$(ATTACK_SECONDS) (60 min)'
	@echo 'make check-asan   runs the tests under the address and undefined-behaviour sanitizers (60 min)'
	@echo 'make check-tsan   runs the tests in which threads meet under the thread sanitizer (40 min)'
	@echo 'make check-kernels   runs the kernel tests on Linux 6.1 and on the newest of backports, in QEMU (25 min)'
	@echo 'make check-image   builds the image and runs it by podman as its manifest says, beside other containers; it is'
	@echo '                  no part of make check (7 min)'
	@echo 'make check-pythons   runs the tests of Python on each interpreter that can be had: Debian 11, 12, 13 and sid, and'
	@echo '                  those of pyenv; says which could not be had (60 min)'
	@echo 'make check-fleet  ships to a real Parca, which it builds with Go 1.25 or later (its modules are the only download),'
	@echo '                  and with PYROSCOPE=BINARY to a real Pyroscope, and reads back what they have (20 min)'
	@echo 'make clean        removes what the others built (1 s)'

configured:
	@[ -f $(BUILD)/build.ninja ] || $(CONFIGURE) -B $(BUILD) -DBUILD_TESTING=OFF

build:
	@.ci/install-packages build
	@$(MAKE) --no-print-directory configured
	@$(COMPILE) product

demo:
	@.ci/install-packages demo
	@$(MAKE) --no-print-directory configured
	@$(COMPILE) product demo_workloads
	@tests/demo/run $(BUILD)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

package:
	@.ci/install-packages package
	@$(MAKE) --no-print-directory build
	@cd $(BUILD) && cpack -B package

image:
	@.ci/install-packages image
	@$(MAKE) --no-print-directory build
	@systemd/kubernetes/make-image $(BUILD)

check-image:
	@.ci/install-packages image
	@$(MAKE) --no-print-directory build
	@tests/image/run $(BUILD)

# From here on the build directory has the tests too.
configured-tests:
	@.ci/install-packages test
	@[ -f $(BUILD)/tests/CTestTestfile.cmake ] || $(CONFIGURE) -B $(BUILD) -DBUILD_TESTING=ON

tests: configured-tests
	@$(COMPILE) all

check: tests
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -LE lint --output-log $(abspath $(BUILD))/check.log

lint: configured-tests
	@$(COMPILE) product
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L lint

# Without vptr: its check asks the kernel for a descriptor, and fails where a test has used them all up. And g++ takes what
# the sanitizers add for reads of what was never written. A line of "====" alone is a fault in a parser, which may not do
# the system calls of a report.
#
# In the attack tests the io thread may stand for 200 ms at most: four times as long as in `make attack`, since the same
# code takes several times as long with both sanitizers and -O1. Shorter stalls are for `make attack` to find. The other
# tests have no such limit.
ASAN_ATTACKS := ^(Hostile|HistoryFloodTest)
ASAN_CTEST = ctest --test-dir $(BUILD)-asan --output-on-failure -j $(JOBS) -LE 'lint|package'
check-asan:
	@.ci/install-packages test
	@$(CONFIGURE) -B $(BUILD)-asan -DBUILD_TESTING=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_CXX_FLAGS='-O1 -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -Wno-maybe-uninitialized' \
	  -DCMAKE_EXE_LINKER_FLAGS=$(CURDIR)/tests/asan_options.cc
	@cmake --build $(BUILD)-asan -j $(JOBS)
	@failed=; \
	$(ASAN_CTEST) -E '$(ASAN_ATTACKS)' || failed=1; \
	PROFD_STALL_MS=200 $(ASAN_CTEST) -R '$(ASAN_ATTACKS)' || failed=1; \
	[ -z "$$failed" ]

# The programs in which threads meet, one folder of tests after the other. A report goes to a file, since not every test
# looks at how a daemon ended. Left out: two of HostileDwarfTest, in whose child the limit of CPU time comes before that of
# entries or of depth; AppsThatNeedTooMuchMemory*, which measures the memory of children; and of e2e what judges
# samples, of which not all passes under the sanitizer. The children have one thread each.
TSAN_LEFT_OUT := HostileDwarfTest.(EntriesAreLimited|DeepNestingIsCut)|AppsThatNeedTooMuchMemory
TSAN_E2E := ^(LifecycleTest|DoorTest|MetricsTest|LimitsTest)[.]
TSAN_CTEST = TSAN_OPTIONS=log_path=$(abspath $(BUILD)-tsan/race) ctest --output-on-failure -j $(JOBS)
check-tsan:
	@.ci/install-packages test
	@$(CONFIGURE) -B $(BUILD)-tsan -DBUILD_TESTING=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DCMAKE_CXX_FLAGS='-O1 -fsanitize=thread -Wno-tsan' \
	  -DCMAKE_EXE_LINKER_FLAGS=$(CURDIR)/tests/tsan_options.cc
	@cmake --build $(BUILD)-tsan -j $(JOBS) --target collectors_test jit_test xray_test xray_live_test daemon_test e2e_test
	@rm -f $(BUILD)-tsan/race.*
	@for folder in collectors collectors/jit collectors/xray daemon; do \
	  $(TSAN_CTEST) --test-dir $(BUILD)-tsan/tests/$$folder -E '$(TSAN_LEFT_OUT)' || failed=1; \
	done; \
	$(TSAN_CTEST) --test-dir $(BUILD)-tsan/tests/e2e -R '$(TSAN_E2E)' || failed=1; \
	! cat $(BUILD)-tsan/race.* 2>/dev/null && [ -z "$$failed" ]

check-kernels: tests
	@tests/kernels/run $(BUILD)

check-pythons: tests
	@tests/pythons/run $(BUILD)

check-fleet: configured-tests
	@tests/fleet/run $(BUILD) --check-go
	@$(COMPILE) product workload_shares workload_depth
	@PYROSCOPE='$(PYROSCOPE)' tests/fleet/run $(BUILD)

soak: tests
	$(BUILD)/e2e_test --gtest_filter='*KillAtAnyMoment*' --gtest_repeat=10
	SOAK_SECONDS=$(SOAK_SECONDS) $(BUILD)/e2e_test --gtest_filter='SoakTest.*'

# All of them, also after one that failed.
attack: export PROFD_STALL_MS := 50
attack: tests
	@failed=; \
	FLOOD_SECONDS=600 ATTACK_SECONDS=120 $(BUILD)/e2e_test --gtest_filter='HistoryFloodTest.*:Hostile*-HostileTogether*' || failed=1; \
	ATTACK_SECONDS=120 $(BUILD)/xray_live_test --gtest_filter='HostileAppDescriptorsTest.*' || failed=1; \
	ATTACK_SECONDS=$(ATTACK_SECONDS) $(BUILD)/e2e_test --gtest_filter='HostileTogetherTest.*' || failed=1; \
	[ -z "$$failed" ]

bench: tests
	@tests/bench/run $(BUILD)

names-oracle: tests
	@tests/oracle/run $(BUILD)

fuzz:
	@.ci/install-packages test
	@tests/fuzz/run $(BUILD) $(FUZZ_SECONDS)

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz
