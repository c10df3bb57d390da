// The kernel stacks of a session as a profile with names, and as gperftools profiles with the image
// of the kernel, both by the daemon's writers: the same samples, so that nothing differs.

#include "ctl/sources/kernel_object.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value_to.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/sources/pprof_samples.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/profiles/named_directory.h"
#include "daemon/profiles/profiled_object.h"
#include "formats/api/session_summary.h"
#include "formats/proc/kallsyms.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/profile.h"
#include "tests/ctl/ran.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using testing::HasSubstr;

// The code at ffffffff81001800 has no name, and nothing from ffffffff81003000 on has one.
constexpr const char* kKallsyms =
    "ffffffff81000000 T do_syscall_64\n"
    "ffffffff81001000 t vfs_read\n"
    "ffffffff81001800 D some_data\n"
    "ffffffff81002000 t copy_page\n"
    "ffffffff81003000 D more_data\n";

struct CountedKernelStack {
  std::vector<std::uint64_t> pcs;  // the leaf first; callers are return addresses
  std::int64_t samples = 0;
};

class KernelObjectTest : public testing::Test {
 protected:
  KernelObjectTest() {
    stacks_ = {{.pcs = {0xffffffff81000010, 0xffffffff81001021, 0xffffffff81002031}, .samples = 3},
               {.pcs = {0xffffffff81001900, 0xffffffff82000001}, .samples = 2},
               {.pcs = {0xffffffff82000000}, .samples = 4}};
    std::filesystem::create_directories(scratch_.path() / "out" / "objects");
    summary_.session = "5f2c01ab";
    summary_.started = "2026-01-02T03:04:05Z";
    summary_.seconds = 5;
    summary_.event = "cpu";
    summary_.period_us = kPeriodUs;
    summary_.ledger = {.taken = 9, .written = 9, .lost = {}};
    ProfileSummary process;
    process.pid = 7;
    process.comm = "work";
    process.path = "work.7.prof";
    process.samples = 9;
    summary_.profiles.push_back(process);
    (void)scratch_.write("out/session.json", to_json(summary_));
  }

  static constexpr std::uint64_t kPeriodUs = 10'101;
  static constexpr std::int64_t kPeriodNs = 10'101'000;

  // As daemon/profiles/pprof_builder.cc names them.
  [[nodiscard]] PprofProfile named_profile() const {
    PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
    profile.period_type = {"cpu", "nanoseconds"};
    profile.period = kPeriodNs;
    profile.duration_ns = 5'000'000'000;
    const std::uint32_t mapping =
        profile.add_mapping({.file = profile.add_text("[kernel.kallsyms]")});
    const std::uint32_t labels =
        profile.add_labels({{.key = profile.add_text("pid"), .number = 7},
                            {.key = profile.add_text("comm"), .text = profile.add_text("work")}});
    for (const CountedKernelStack& stack : stacks_) {
      std::vector<std::uint32_t> locations;
      locations.reserve(stack.pcs.size());
      for (const std::uint64_t address : code_addresses(stack)) {
        locations.push_back(location_of(address, mapping, profile));
      }
      const std::vector<std::int64_t> values{stack.samples, stack.samples * kPeriodNs};
      profile.add_sample({.labels = labels, .stack = profile.add_stack(locations)}, values);
    }
    return profile;
  }

  // Of the code bytes that were hit.
  static std::vector<std::uint64_t> code_addresses(const CountedKernelStack& stack) {
    std::vector<std::uint64_t> addresses = stack.pcs;
    for (std::size_t i = 1; i < addresses.size(); ++i) --addresses[i];
    return addresses;
  }

  std::uint32_t location_of(std::uint64_t address, std::uint32_t mapping,
                            PprofProfile& profile) const {
    const PprofLocation location{.address = address, .mapping = mapping};
    const auto symbol = symbols_.find(address);
    if (!symbol) return profile.add_location(location, {});
    const std::uint32_t name = profile.add_text(symbol->name);
    const PprofLine line{.function = profile.add_function({.name = name, .system_name = name})};
    return profile.add_location(location, {&line, 1});
  }

  void write_directory(const KernelImage& image) {
    Profile profile;
    profile.period = kPeriodUs;
    profile.build_dir = ".";
    profile.mappings = {image.mapping()};
    for (const CountedKernelStack& stack : stacks_) {
      std::vector<Frame> frames;
      image.append_frames(stack.pcs, frames);
      profile.add_stack(frames, static_cast<std::uint64_t>(stack.samples));
    }
    (void)scratch_.write("out/work.7.prof", encode_gperftools(profile));
    (void)scratch_.write("out/" + path_in_result(image.line_path()), image.encode());
  }

  [[nodiscard]] KernelImage named_image() const {
    std::set<std::uint64_t> addresses;
    for (const CountedKernelStack& stack : stacks_) {
      for (const std::uint64_t address : code_addresses(stack)) addresses.insert(address);
    }
    return KernelImage::named(symbols_, {}, "6.1.0-13-amd64", addresses);
  }

  Ran run(std::vector<std::string> arguments) {
    return run_with_socket(scratch_.path() / "no-socket", std::move(arguments));
  }
  void expect_no_difference(const PprofProfile& profile) {
    const std::string file = scratch_.write("a.pb.gz", encode_pprof_gzip(profile));
    for (const std::string keys : {"function", "file", "line", "process"}) {
      const Ran ran = run({"diff", directory(), file, "--by", keys, "--names", "full"});
      EXPECT_EQ(ran.code, 0) << ran.err;
      EXPECT_THAT(ran.out, HasSubstr("\nno change\n")) << keys;
    }
  }
  [[nodiscard]] std::string directory() const { return scratch_.path() / "out"; }

  test::ScratchDirectory scratch_;
  SessionSummary summary_;
  std::vector<CountedKernelStack> stacks_;
  KernelSymbols symbols_ = KernelSymbols::parse(kKallsyms).value();
};

TEST_F(KernelObjectTest, ADirectoryOfASessionDoesNotDifferFromItsProfile) {
  write_directory(named_image());
  expect_no_difference(named_profile());
}

TEST_F(KernelObjectTest, ADirectoryOfAnExportDoesNotDifferFromItsProfile) {
  const PprofProfile profile = named_profile();
  const NamedDirectory exported(profile);
  ASSERT_EQ(exported.processes().size(), 1U);
  (void)scratch_.write("out/work.7.prof",
                       exported.encode_profile(exported.processes().front(), kPeriodUs));
  for (std::size_t i = 0; i < exported.images(); ++i) {
    const std::string image = exported.encode_image(i, std::numeric_limits<std::uint64_t>::max());
    (void)scratch_.write("out/" + exported.image_path(i), image);
  }
  expect_no_difference(profile);
}

// What a caller sees who may not see the kernel.
TEST_F(KernelObjectTest, AHiddenKernelDoesNotDifferEither) {
  write_directory(KernelImage::hidden());
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}});
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = kPeriodNs;
  profile.duration_ns = 5'000'000'000;
  const std::uint32_t mapping = profile.add_mapping({.file = profile.add_text("[kernel]")});
  const std::uint32_t location = profile.add_location({.mapping = mapping}, {});
  const std::uint32_t labels =
      profile.add_labels({{.key = profile.add_text("pid"), .number = 7},
                          {.key = profile.add_text("comm"), .text = profile.add_text("work")}});
  const std::vector<std::int64_t> values{9, 9 * kPeriodNs};
  profile.add_sample({.labels = labels, .stack = profile.add_stack({&location, 1})}, values);
  expect_no_difference(profile);
}

TEST_F(KernelObjectTest, TheKernelIsOneObjectOfItsOwnKind) {
  write_directory(named_image());
  const Ran ran = run({"report", directory(), "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const boost::json::value report = boost::json::parse(ran.out);
  std::set<std::string> names;
  for (const boost::json::value& row : report.at("rows").as_array()) {
    names.insert(boost::json::value_to<std::string>(row.at("name")));
    EXPECT_EQ(boost::json::value_to<std::string>(row.at("object")), "[kernel.kallsyms]");
    EXPECT_EQ(boost::json::value_to<std::string>(row.at("kind")), "kernel");
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"[kernel.kallsyms]", "copy_page", "do_syscall_64", "vfs_read"}));
}

TEST_F(KernelObjectTest, OtherObjectsKeepTheirNames) {
  for (const std::string object :
       {"", "/usr/bin/kernel", "$build/objects/kernel-tool.so", "$build/objects/kernel",
        "$build/objects/kernel-.so", "/boot/vmlinux-6.1", "[vdso]"}) {
    EXPECT_EQ(kernel_object_of(object), object);
  }
  EXPECT_EQ(kernel_object_of("$build/objects/kernel.so"), kKernelObject);
  EXPECT_EQ(kernel_object_of("$build/objects/kernel-6.1.so"), kKernelObject);
}

TEST_F(KernelObjectTest, AFileOrMappingIsOfOneKindOfCode) {
  for (const char* const kernel :
       {"[kernel.kallsyms]", "[kernel.kallsyms]_text", "[kernel]", "vmlinux", "vmlinux.debug",
        "/boot/vmlinux-6.1.0-13-amd64", "/usr/lib/debug/lib/modules/6.1.0/vmlinux",
        "$build/objects/kernel.so", "$build/objects/kernel-6.1.0-13-amd64.so",
        "/home/me/out/objects/kernel-6.1.0-13-amd64.so"}) {
    EXPECT_EQ(kind_of_object(kernel), FrameKind::kKernel) << kernel;
  }
  for (const char* const runtime :
       {"[jit]", "[JIT] tid 4711", "//anon", "/tmp/perf-4711.map", "/tmp/jit-4711.dump",
        "/home/me/.debug/jit/x/jitted-4711-5.so", "$build/objects/jit.so",
        "$build/objects/jit-2.so", "$build/objects/jit-node-4711.so",
        "$build/objects/jit-node-4711-2.so", "/home/me/out/objects/jit-node-4711.so"}) {
    EXPECT_EQ(kind_of_object(runtime), FrameKind::kRuntime) << runtime;
  }
  for (const char* const interpreted :
       {"[python]", "[php]", "[interpreted]", "$build/objects/python.so", "/out/objects/php.so",
        "$build/objects/python-app-4711.so", "$build/objects/php-fpm-4711-2.so",
        "$build/objects/interpreted-app-4711.so"}) {
    EXPECT_EQ(kind_of_object(interpreted), FrameKind::kInterpreted) << interpreted;
  }
  for (const char* const native : {"",
                                   "[vdso]",
                                   "/usr/bin/kernel-tool",
                                   "/usr/bin/kernel-6",
                                   "/usr/lib/kernel-6.1.so",
                                   "$build/objects/kernel-tool.so",
                                   "$build/objects/.so",
                                   "/usr/bin/vmlinux-to-elf",
                                   "/usr/bin/vmlinuxes",
                                   "/usr/lib/jit-tools.so",
                                   "/usr/lib/jit-4711.so",
                                   "jit-4711.so",
                                   "$build/objects/jit-tool-4f0c2a19ab.so",
                                   "/tmp/perf-x.map",
                                   "/tmp/perf-.map",
                                   "/usr/bin/jit-.dump",
                                   "/usr/bin/anon",
                                   "[python3.11]",
                                   "/usr/bin/python",
                                   "$build/objects/python3.11-4f0c2a19ab.so",
                                   "[pythonic]",
                                   "[python-app-4711]",
                                   "$build/objects/python-tool-4f0c2a19ab.so",
                                   "$build/objects/python3-4711.so"}) {
    EXPECT_EQ(kind_of_object(native), FrameKind::kNative) << native;
  }
}

}  // namespace
}  // namespace profd
