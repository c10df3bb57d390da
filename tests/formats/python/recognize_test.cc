// CPython in ELF files: made ones of each version, with one thing wrong at a time, and the
// interpreters of this host.

#include "formats/python/recognize.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <stdio.h>

#include "formats/base/unique_fd.h"
#include "formats/python/layouts.h"
#include "tests/formats/elf/hostile_elf.h"
#include "tests/formats/python/made_python.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;

UniqueFd python_file(const std::string& bytes) {
  UniqueFd fd(::memfd_create("python", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

FoundRuntime recognized(int fd) {
  const auto file = CodeFile::open(fd);
  if (!file) return {};
  const auto found = recognize_python(*file);
  EXPECT_TRUE(found);
  EXPECT_TRUE(is_valid(*found));
  return *found;
}

FoundRuntime recognized(const MadePython& python) {
  return recognized(python_file(python.bytes()).get());
}

void expect_slots(const MadePython& python, const profd_runtime& runtime) {
  const auto pair = static_cast<std::int64_t>(MadePython::kBase + MadePython::kPair);
  if (python.minor < 15) {
    EXPECT_EQ(runtime.slot_form[1], PROFD_SLOT_KEY);
    EXPECT_EQ(runtime.slot[1], static_cast<std::int64_t>(python.key()));
  } else if (python.is_library) {
    EXPECT_EQ(runtime.slot_form[1], PROFD_SLOT_DYNAMIC_TLS);
    EXPECT_EQ(runtime.slot[1], pair);
    EXPECT_EQ(runtime.slot_add[1], 16);
  } else {
    EXPECT_EQ(runtime.slot_form[1], PROFD_SLOT_TLS);
    EXPECT_EQ(runtime.slot[1], -40);
  }
  if (python.minor < 12) {
    EXPECT_EQ(runtime.slot_form[0], PROFD_SLOT_NONE);
  } else if (python.is_library) {
    EXPECT_EQ(runtime.slot_form[0], PROFD_SLOT_DYNAMIC_TLS);
    EXPECT_EQ(runtime.slot[0], pair);
    EXPECT_EQ(runtime.slot_add[0], 8);
  } else {
    EXPECT_EQ(runtime.slot_form[0], PROFD_SLOT_TLS);
    EXPECT_EQ(runtime.slot[0], -32);
  }
}

void expect_known(const MadePython& python) {
  const FoundRuntime found = recognized(python);
  ASSERT_EQ(name_of(found.verdict), "known");
  EXPECT_EQ(found.kind, PROFD_RUNTIME_PYTHON);
  const std::uint32_t patch = python.minor < 11 ? kUnknownPatch : 2;
  EXPECT_EQ(found.version, 0x030000 | python.minor << 8 | patch);
  const profd_runtime& runtime = found.runtime;
  EXPECT_EQ(runtime.kind, PROFD_RUNTIME_PYTHON);
  EXPECT_EQ(runtime.layout, python.minor - 7);
  EXPECT_EQ(runtime.libc, PROFD_LIBC_GLIBC);
  EXPECT_EQ(runtime.bias, 0 - MadePython::kBase);
  EXPECT_EQ(runtime.code_type, MadePython::kBase + MadePython::kCodeType);
  EXPECT_EQ(runtime.loop[0].start, MadePython::kEval);
  EXPECT_EQ(runtime.loop[0].bytes, MadePython::kEvalBytes);
  EXPECT_EQ(runtime.loop[1].start, MadePython::kCold);
  EXPECT_EQ(runtime.loop[1].bytes, MadePython::kColdBytes);
  expect_slots(python, runtime);
}

TEST(RecognizePythonTest, EachVersionIsRecognized) {
  for (unsigned minor = python::kFirstMinor; minor <= python::kLastMinor; ++minor) {
    for (const bool is_library : {false, true}) {
      SCOPED_TRACE("3." + std::to_string(minor) + (is_library ? ", library" : ""));
      MadePython python(minor);
      python.is_library = is_library;
      expect_known(python);
      python.has_gnu_hash = false;
      expect_known(python);
    }
  }
}

struct PythonDamage {
  std::string name;
  unsigned minor;
  std::function<void(MadePython&)> apply;
  RuntimeVerdict verdict;
};

std::vector<PythonDamage> damages_of_symbols() {
  using enum RuntimeVerdict;
  return {
      {"no runtime", 11, [](auto& made) { made.without = {"_PyRuntime"}; }, kNone},
      {"no code type", 11, [](auto& made) { made.without = {"PyCode_Type"}; }, kNoSymbols},
      {"no eval", 11, [](auto& made) { made.without = {"_PyEval_EvalFrameDefault"}; }, kNoSymbols},
      {"no gilstate", 13, [](auto& made) { made.without = {"PyGILState_GetThisThreadState"}; },
       kNoSymbols},
      {"no version", 11, [](auto& made) { made.without = {"Py_Version"}; }, kUnknownVersion},
  };
}

std::vector<PythonDamage> damages_of_numbers() {
  using enum RuntimeVerdict;
  static constexpr std::uint64_t kPyRuntime = MadePython::kRuntime;
  return {
      {"another size", 8, [](auto& made) { made.runtime_bytes = 1465; }, kUnknownVersion},
      {"3.16", 11, [](auto& made) { made.version = 0x031000f0; }, kUnknownVersion},
      {"3.7", 11, [](auto& made) { made.version = 0x030700f0; }, kUnknownVersion},
      {"4.11", 11, [](auto& made) { made.version = 0x040b00f0; }, kUnknownVersion},
      {"no version hex", 11, [](auto& made) { made.version = 0x1030b02f0; }, kMalformed},
      {"a debug build", 11, [](auto& made) { made.code_basicsize = 200; }, kUnknownLayout},
      {"two versions", 13,
       [](auto& made) { made.changes.emplace_back(kPyRuntime + 8, 0x030d01f0); }, kMalformed},
      {"free-threaded", 13, [](auto& made) { made.changes.emplace_back(kPyRuntime + 16, 1); },
       kFreeThreaded},
      {"no cookie", 13, [](auto& made) { made.changes.emplace_back(kPyRuntime, 0); },
       kUnknownLayout},
      {"a cookie too early", 12,
       [](auto& made) {
         made.changes.emplace_back(kPyRuntime, 0x7970677562656478);
         made.changes.emplace_back(kPyRuntime + 8, 0x030c02f0);
       },
       kUnknownLayout},
      {"instr_ptr", 13, [](auto& made) { made.changes.emplace_back(kPyRuntime + 248, 64); },
       kUnknownLayout},
      {"owner", 14, [](auto& made) { made.changes.emplace_back(kPyRuntime + 288, 70); },
       kUnknownLayout},
      {"thread_id", 15, [](auto& made) { made.changes.emplace_back(kPyRuntime + 240, 152); },
       kUnknownLayout},
  };
}

std::vector<PythonDamage> damages_of_threads() {
  using enum RuntimeVerdict;
  return {
      {"no code", 11, [](auto& made) { made.changes.emplace_back(MadePython::kGilstate, 0); },
       kNoThreadState},
      {"another key", 11,
       [](auto& made) {
         const auto code = made.bytes().substr(MadePython::kGilstate, 8);
         std::uint64_t word = 0;
         for (std::size_t i = 0; i < 8; ++i) {
           word |= std::uint64_t{static_cast<std::uint8_t>(code[i])} << 8 * i;
         }
         made.changes.emplace_back(MadePython::kGilstate, word + (std::uint64_t{8} << 16));
       },
       kNoThreadState},
      {"an unknown GOT", 11,
       [](auto& made) {
         made.is_library = true;
         made.changes.emplace_back(MadePython::kRelocations, 0);
       },
       kNoThreadState},
      {"a pair that is none", 15,
       [](auto& made) {
         made.is_library = true;
         made.changes.emplace_back(MadePython::kRelocations + 24, 0);
       },
       kNoThreadState},
      {"a static program of an unknown libc", 11, [](auto& made) { made.needed = ""; },
       kNoThreadState},
  };
}

TEST(RecognizePythonTest, WhatIsAnotherIsRefusedByItsName) {
  auto damages = damages_of_symbols();
  for (auto& damage : damages_of_numbers()) damages.push_back(std::move(damage));
  for (auto& damage : damages_of_threads()) damages.push_back(std::move(damage));
  for (const PythonDamage& damage : damages) {
    MadePython python(damage.minor);
    damage.apply(python);
    const FoundRuntime found = recognized(python);
    EXPECT_EQ(name_of(found.verdict), name_of(damage.verdict)) << damage.name;
  }
}

TEST(RecognizePythonTest, AProgramWithoutTheExactStateHasTheOther) {
  MadePython python(13);
  python.changes.emplace_back(MadePython::kCurrent, 0);
  const FoundRuntime found = recognized(python);
  EXPECT_EQ(name_of(found.verdict), "known");
  EXPECT_EQ(found.runtime.slot_form[0], PROFD_SLOT_NONE);
  EXPECT_EQ(found.runtime.slot_form[1], PROFD_SLOT_KEY);
}

TEST(RecognizePythonTest, TheLibcIsThatOfTheFile) {
  for (const char* const needed : {"libc.musl-x86_64.so.1", "libc.so"}) {
    MadePython python(12);
    python.needed = needed;
    const FoundRuntime found = recognized(python);
    EXPECT_EQ(name_of(found.verdict), "known");
    EXPECT_EQ(found.runtime.libc, PROFD_LIBC_MUSL) << needed;
  }
}

// Two of three jumps are gone. Another function is hit as often, but at its start.
TEST(RecognizePythonTest, APartOfTheLoopIsHitByItsJumpsOnly) {
  MadePython python(11);
  python.changes.emplace_back(MadePython::kEval, 0);
  const FoundRuntime found = recognized(python);
  EXPECT_EQ(name_of(found.verdict), "known");
  EXPECT_EQ(found.runtime.loop[0].start, MadePython::kEval);
  EXPECT_EQ(found.runtime.loop[1].bytes, 0U);
}

TEST(RecognizePythonTest, ThePltIsNoPartOfTheLoop) {
  MadePython python(11);
  python.changes.emplace_back(MadePython::kCold, 0x25ff);  // jmp *(%rip)
  EXPECT_EQ(recognized(python).runtime.loop[1].bytes, 0U);
}

// The linker fills in what needs no relocation, and DT_RELR has the address in the word itself.
TEST(RecognizePythonTest, AWordOfTheGotWithoutARelocationIsItsAddress) {
  MadePython python(11);
  python.is_library = true;
  python.changes.emplace_back(MadePython::kRelocations, 0);
  python.changes.emplace_back(MadePython::kGot, MadePython::kBase + MadePython::kRuntime);
  EXPECT_EQ(name_of(recognized(python).verdict), "known");
}

// Without any symbols only the section says what it is.
TEST(RecognizePythonTest, AStrippedProgramIsNamedByItsSection) {
  HostileElf elf;
  (void)elf.add({.name = ".PyRuntime", .bytes = std::string(64, '\0')});
  const FoundRuntime found = recognized(python_file(elf.bytes()).get());
  EXPECT_EQ(name_of(found.verdict), "no_symbols");
  EXPECT_EQ(text_of(found), "python");

  HostileElf with_cookie;
  std::string runtime = "xdebugpy";
  runtime += std::string("\xf0\x02\x0d\x03\0\0\0\0\0\0\0\0\0\0\0\0", 16);
  (void)with_cookie.add({.name = ".PyRuntime", .bytes = runtime});
  const FoundRuntime versioned = recognized(python_file(with_cookie.bytes()).get());
  EXPECT_EQ(name_of(versioned.verdict), "no_symbols");
  EXPECT_EQ(text_of(versioned), "python 3.13.2");
}

TEST(RecognizePythonTest, AFileThatIsCutIsNoneOrRefused) {
  const std::string whole = MadePython(13).bytes();
  for (std::size_t bytes = 0; bytes < MadePython::kRuntime; bytes += 61) {
    const FoundRuntime found = recognized(python_file(whole.substr(0, bytes)).get());
    EXPECT_NE(name_of(found.verdict), "known") << bytes;
  }
}

TEST(RecognizePythonTest, OtherProgramsAreNone) {
  const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(name_of(recognized(self.get()).verdict), "none");
}

struct LivePython {
  fs::path program;
  fs::path file;  // with the interpreter
};

std::string python_output(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 256> part;
  while (::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) text += part.data();
  ::pclose(pipe);
  return text;
}

// The system's interpreter, and those of pyenv.
std::vector<LivePython> live_pythons() {
  std::vector<LivePython> found;
  std::error_code error;
  const fs::path system = fs::canonical("/usr/bin/python3", error);
  if (!error) found.push_back({system, system});
  const char* const home = std::getenv("HOME");
  const char* const given = std::getenv("PYENV_ROOT");
  const fs::path root = given != nullptr ? given : fs::path(home == nullptr ? "" : home) / ".pyenv";
  for (const auto& version : fs::directory_iterator(root / "versions", error)) {
    const fs::path program = version.path() / "bin" / "python3";
    const std::string name = version.path().filename();
    const fs::path library =
        version.path() / "lib" / ("libpython" + name.substr(0, name.rfind('.')) + ".so.1.0");
    if (!fs::exists(program, error)) continue;
    found.push_back({program, fs::exists(library, error) ? library : fs::canonical(program)});
  }
  return found;
}

// The interpreter itself is the oracle of its version.
TEST(RecognizePythonTest, TheInterpretersOfThisHostAreRecognized) {
  std::size_t checked = 0;
  for (const LivePython& live : live_pythons()) {
    SCOPED_TRACE(live.file);
    const std::string version =
        python_output(live.program.string() +
                      " -S -c 'import sys; print(\"%d.%d.%d\" % tuple(sys.version_info[:3]))'");
    unsigned minor = 0;
    if (::sscanf(version.c_str(), "3.%u.", &minor) != 1) continue;
    const UniqueFd fd(::open(live.file.c_str(), O_RDONLY | O_CLOEXEC));
    const FoundRuntime found = recognized(fd.get());
    if (minor < python::kFirstMinor || minor > python::kLastMinor) {
      EXPECT_NE(name_of(found.verdict), "known");
      continue;
    }
    ASSERT_EQ(name_of(found.verdict), "known");
    const std::string expected = "python " + version.substr(0, version.find('\n'));
    EXPECT_TRUE(expected.starts_with(text_of(found))) << text_of(found) << ", not " << expected;
    EXPECT_EQ(found.runtime.layout, minor - 7);
    EXPECT_NE(found.runtime.loop[0].bytes, 0U);
    EXPECT_EQ(found.runtime.prologue != 0, minor == 11 || minor == 12);
    // Debian's: all of them have a part of 9 KB or more elsewhere.
    if (live.file == live.program && minor >= 9) {
      EXPECT_GT(found.runtime.loop[1].bytes, 4096U);
    }
    ++checked;
  }
  EXPECT_GT(checked, 0U);
}

}  // namespace
}  // namespace profd::test
