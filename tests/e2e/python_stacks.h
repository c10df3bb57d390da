// What the tests of Python's functions compare: the samples of a .pb.gz file with their Python
// frames, and what a program of tests/workloads/python printed of itself.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/e2e/harness.h"

namespace profd::e2e {

struct PythonFrame {
  std::string name{};
  std::string file{};
  std::int64_t line = 0;
};

struct PythonSample {
  std::int64_t samples = 0;
  std::vector<std::string> names{};   // of all frames, the leaf first, with inlined ones
  std::vector<PythonFrame> python{};  // the Python frames among them
  std::vector<std::size_t> places{};  // of these in `names`
  bool has_loop = false;              // an activation of the interpreter's loop
  std::map<std::string, std::string> labels{};

  [[nodiscard]] bool has(const std::string& function) const;  // a Python frame of that name
  [[nodiscard]] std::string label(const std::string& key) const;
  [[nodiscard]] bool is_all_named() const;  // and there is a Python frame
  [[nodiscard]] std::string text() const;   // one line, for messages
};

class PythonSamples {
 public:
  // Frames of which mapping are those of interpreted code, and which native function is the loop.
  struct Interpreter {
    std::string_view mapping = "[python]";
    std::string_view loop = "_PyEval_EvalFrameDefault";
  };
  // Fails the test when it can't be read.
  static PythonSamples read(const std::filesystem::path& file) { return read(file, Interpreter()); }
  static PythonSamples read(const std::filesystem::path& file, const Interpreter& interpreter);

  [[nodiscard]] const std::vector<PythonSample>& all() const { return samples_; }
  [[nodiscard]] PythonSamples of_pid(const std::string& pid) const;
  [[nodiscard]] std::int64_t total() const;
  // Percent of all: in the function and what it calls, or where it is the leaf-most Python frame.
  [[nodiscard]] double cumulative(const std::string& function) const;
  [[nodiscard]] double flat(const std::string& function) const;
  // Of the stacks with an activation of the loop, the share whose Python frames are all named.
  [[nodiscard]] double named_share() const;
  [[nodiscard]] std::int64_t with_loop() const;
  [[nodiscard]] std::set<std::string> functions() const;

 private:
  std::vector<PythonSample> samples_;
};

// A case of tests/workloads/python/cases.py.
struct PythonCase {
  std::string name{};
  double ns = 0;
  std::vector<PythonFrame> stack{};  // without files; the leaf first
};

struct PythonTruth {
  unsigned minor = 0;
  std::vector<PythonCase> cases{};
  std::set<std::pair<std::string, std::string>> pairs{};  // caller and callee
  std::map<std::string, std::uint64_t> numbers{};

  // Of the line of the output that has it; fails the test without one.
  static PythonTruth parse(const std::string& output);

  [[nodiscard]] double total_ns() const;
};

// For comparison with a stack of the interpreter's own.
using NamesAndLines = std::vector<std::pair<std::string, std::int64_t>>;
[[nodiscard]] NamesAndLines names_and_lines(const std::vector<PythonFrame>& frames);
[[nodiscard]] std::string text_of_stack(const NamesAndLines& stack);

// The stacks of all cases by their leaf-most frame, which is at the line of the long call.
class ExpectedStacks {
 public:
  explicit ExpectedStacks(const PythonTruth& truth);

  // Whether the stack is inside of a case's call.
  [[nodiscard]] bool is_judged(const NamesAndLines& stack) const;
  // Of a judged one: whether it is that of a case, from the leaf to the root.
  [[nodiscard]] bool is_right(const NamesAndLines& stack) const;
  [[nodiscard]] std::string text_of_expected(const NamesAndLines& stack) const;

 private:
  std::map<std::pair<std::string, std::int64_t>, std::set<NamesAndLines>> stacks_;
};

// What of interpreted stacks, frames and code was lost since the daemon's start, by reason.
[[nodiscard]] std::map<std::string, std::uint64_t> interpreter_losses(const Daemon& daemon);

// The interpreter under test: PROFD_TEST_PYTHON, arguments and all, or Debian's.
[[nodiscard]] Args test_python();
[[nodiscard]] bool is_usual_python();  // Debian's
[[nodiscard]] std::filesystem::path python_workload(const std::string& name);
[[nodiscard]] Args python_command(const std::string& workload, const Args& arguments = {},
                                  const Args& options = {});
// 11 for 3.11.
[[nodiscard]] unsigned test_python_minor();

}  // namespace profd::e2e
