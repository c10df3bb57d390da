#include "tests/e2e/python_stacks.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include "formats/profile/pprof_reader.h"

namespace profd::e2e {
namespace {

constexpr std::string_view kTruth = "{\"python\":";

void add_frames(const PprofProfile& profile, const PprofLocation& location,
                const PythonSamples::Interpreter& interpreter, PythonSample& sample) {
  const bool is_interpreted =
      location.mapping != PprofLocation::kNoMapping &&
      profile.text(profile.mappings()[location.mapping].file) == interpreter.mapping;
  for (const PprofLine& line : profile.lines(location.lines)) {
    const PprofFunction& function = profile.functions()[line.function];
    sample.names.emplace_back(profile.text(function.name));
    if (sample.names.back() == interpreter.loop) sample.has_loop = true;
    if (is_interpreted) {
      sample.places.push_back(sample.names.size() - 1);
      sample.python.push_back({.name = sample.names.back(),
                               .file = std::string(profile.text(function.file)),
                               .line = line.line});
    }
  }
}

std::string label_text(const PprofProfile& profile, const PprofLabel& label) {
  return label.text != 0 ? std::string(profile.text(label.text)) : std::to_string(label.number);
}

std::string string_of(const boost::json::value& value) {
  const boost::json::string& text = value.as_string();
  return {text.data(), text.size()};
}

PythonCase case_of(const boost::json::value& printed) {
  PythonCase one{.name = string_of(printed.at("name")), .ns = printed.at("ns").to_number<double>()};
  const boost::json::array& stack = printed.at("stack").as_array();
  one.stack.reserve(stack.size());
  for (const boost::json::value& frame : stack) {
    one.stack.push_back(
        {.name = string_of(frame.at(0)), .line = frame.at(1).to_number<std::int64_t>()});
  }
  return one;
}

std::string line_with_truth(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kTruth)) return line;
  }
  return {};
}

}  // namespace

bool PythonSample::has(const std::string& function) const {
  return std::ranges::find(python, function, &PythonFrame::name) != python.end();
}

std::string PythonSample::label(const std::string& key) const {
  const auto found = labels.find(key);
  return found == labels.end() ? std::string() : found->second;
}

bool PythonSample::is_all_named() const {
  return !python.empty() && std::ranges::none_of(python, [](const PythonFrame& frame) {
    return frame.name.starts_with('[');
  });
}

std::string PythonSample::text() const {
  std::string text = std::to_string(samples) + ":";
  for (const std::string& name : names) text += " " + name;
  return text;
}

PythonSamples PythonSamples::read(const std::filesystem::path& file,
                                  const Interpreter& interpreter) {
  PythonSamples all;
  const auto profile = decode_pprof(slurp(file));
  if (!profile) {
    ADD_FAILURE() << file << " is no profile";
    return all;
  }
  all.samples_.reserve(profile->samples().size());
  for (std::size_t i = 0; i < profile->samples().size(); ++i) {
    PythonSample sample{.samples = profile->values(i)[0]};
    for (const std::uint32_t location : profile->stack(profile->samples()[i].stack)) {
      add_frames(*profile, profile->locations()[location], interpreter, sample);
    }
    for (const PprofLabel& label : profile->labels(profile->samples()[i].labels)) {
      sample.labels[std::string(profile->text(label.key))] = label_text(*profile, label);
    }
    all.samples_.push_back(std::move(sample));
  }
  return all;
}

PythonSamples PythonSamples::of_pid(const std::string& pid) const {
  PythonSamples some;
  std::ranges::copy_if(samples_, std::back_inserter(some.samples_),
                       [&](const PythonSample& sample) { return sample.label("pid") == pid; });
  return some;
}

std::int64_t PythonSamples::total() const {
  std::int64_t total = 0;
  for (const PythonSample& sample : samples_) total += sample.samples;
  return total;
}

double PythonSamples::cumulative(const std::string& function) const {
  std::int64_t in = 0;
  for (const PythonSample& sample : samples_) {
    if (sample.has(function)) in += sample.samples;
  }
  return 100.0 * static_cast<double>(in) / static_cast<double>(std::max<std::int64_t>(total(), 1));
}

double PythonSamples::flat(const std::string& function) const {
  std::int64_t in = 0;
  for (const PythonSample& sample : samples_) {
    if (!sample.python.empty() && sample.python[0].name == function) in += sample.samples;
  }
  return 100.0 * static_cast<double>(in) / static_cast<double>(std::max<std::int64_t>(total(), 1));
}

std::int64_t PythonSamples::with_loop() const {
  std::int64_t with = 0;
  for (const PythonSample& sample : samples_) {
    if (sample.has_loop) with += sample.samples;
  }
  return with;
}

double PythonSamples::named_share() const {
  std::int64_t named = 0;
  for (const PythonSample& sample : samples_) {
    if (sample.has_loop && sample.is_all_named()) named += sample.samples;
  }
  return static_cast<double>(named) / static_cast<double>(std::max<std::int64_t>(with_loop(), 1));
}

std::set<std::string> PythonSamples::functions() const {
  std::set<std::string> names;
  for (const PythonSample& sample : samples_) {
    for (const PythonFrame& frame : sample.python) names.insert(frame.name);
  }
  return names;
}

PythonTruth PythonTruth::parse(const std::string& output) {
  PythonTruth truth;
  const std::string line = line_with_truth(output);
  if (line.empty()) {
    ADD_FAILURE() << "the program printed nothing of itself: " << output;
    return truth;
  }
  const boost::json::value parsed = boost::json::parse(line);
  const boost::json::object& printed = parsed.at("python").as_object();
  for (const auto& member : printed) {
    if (member.value().is_number()) {
      truth.numbers[{member.key().data(), member.key().size()}] =
          member.value().to_number<std::uint64_t>();
    }
  }
  truth.minor = printed.at("version").at(1).to_number<unsigned>();
  const boost::json::array& cases = printed.at("cases").as_array();
  truth.cases.reserve(cases.size());
  for (const boost::json::value& one : cases) {
    truth.cases.push_back(case_of(one));
  }
  if (printed.contains("pairs")) {
    for (const boost::json::value& pair : printed.at("pairs").as_array()) {
      truth.pairs.emplace(string_of(pair.at(0)), string_of(pair.at(1)));
    }
  }
  return truth;
}

double PythonTruth::total_ns() const {
  double total = 0;
  for (const PythonCase& one : cases) total += one.ns;
  return total;
}

NamesAndLines names_and_lines(const std::vector<PythonFrame>& frames) {
  NamesAndLines all;
  all.reserve(frames.size());
  for (const PythonFrame& frame : frames) all.emplace_back(frame.name, frame.line);
  return all;
}

std::string text_of_stack(const NamesAndLines& stack) {
  std::string text;
  for (const auto& [name, line] : stack) text += "\n  " + name + ":" + std::to_string(line);
  return text;
}

ExpectedStacks::ExpectedStacks(const PythonTruth& truth) {
  for (const PythonCase& one : truth.cases) {
    const NamesAndLines stack = names_and_lines(one.stack);
    stacks_[stack.front()].insert(stack);
  }
}

bool ExpectedStacks::is_judged(const NamesAndLines& stack) const {
  return !stack.empty() && stacks_.contains(stack.front());
}

bool ExpectedStacks::is_right(const NamesAndLines& stack) const {
  return stacks_.at(stack.front()).contains(stack);
}

std::string ExpectedStacks::text_of_expected(const NamesAndLines& stack) const {
  std::string text;
  for (const NamesAndLines& one : stacks_.at(stack.front())) text += text_of_stack(one) + "\n or";
  return text;
}

std::map<std::string, std::uint64_t> interpreter_losses(const Daemon& daemon) {
  const Ended ended = daemon.profctl({"status", "--json"});
  std::map<std::string, std::uint64_t> counts;
  const boost::json::value status = boost::json::parse(ended.out);
  if (!status.as_object().contains("interpreters")) return counts;
  for (const auto& member : status.at("interpreters").at("lost").as_object()) {
    counts[{member.key().data(), member.key().size()}] = member.value().to_number<std::uint64_t>();
  }
  return counts;
}

bool is_usual_python() { return std::getenv("PROFD_TEST_PYTHON") == nullptr; }

Args test_python() {
  const char* const given = std::getenv("PROFD_TEST_PYTHON");
  std::istringstream words(given == nullptr ? "/usr/bin/python3" : given);
  Args command;
  for (std::string word; words >> word;) command.push_back(word);
  return command;
}

std::filesystem::path python_workload(const std::string& name) {
  return std::filesystem::path(SOURCE_DIRECTORY) / "tests/workloads/python" / name;
}

Args python_command(const std::string& workload, const Args& arguments, const Args& options) {
  Args command = test_python();
  command.emplace_back("-B");  // nothing is written into the source tree
  command.insert(command.end(), options.begin(), options.end());
  command.push_back(python_workload(workload));
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

unsigned test_python_minor() {
  Args command = test_python();
  command.insert(command.end(), {"-c", "import sys; print(sys.version_info[1])"});
  return static_cast<unsigned>(std::strtoul(run(command).out.c_str(), nullptr, 10));
}

}  // namespace profd::e2e
