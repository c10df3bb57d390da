#include "tests/e2e/off_cpu_rows.h"

#include <algorithm>
#include <sstream>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <gtest/gtest.h>

#include "formats/profile/pprof_reader.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {
namespace {

std::vector<std::string> frames_in(const PprofProfile& profile, std::uint32_t stack) {
  std::vector<std::string> frames;
  for (const std::uint32_t location : profile.stack(stack)) {
    for (const PprofLine& line : profile.lines(profile.locations()[location].lines)) {
      frames.emplace_back(profile.text(profile.functions()[line.function].name));
    }
  }
  return frames;
}

LabelTexts texts_in(const PprofProfile& profile, std::uint32_t labels) {
  LabelTexts texts;
  for (const PprofLabel& label : profile.labels(labels)) {
    if (label.text != 0) texts[std::string(profile.text(label.key))] = profile.text(label.text);
  }
  return texts;
}

bool has_labels(const BlockRow& row, const LabelTexts& labels) {
  return std::ranges::all_of(labels, [&row](const auto& label) {
    const auto found = row.labels.find(label.first);
    return found != row.labels.end() && found->second == label.second;
  });
}

std::string name_of_member(const boost::json::key_value_pair& member) {
  return {member.key().data(), member.key().size()};
}

double number_of(const boost::json::value& object, const char* key) {
  return object.at(key).to_number<double>();
}

}  // namespace

BlockRows BlockRows::read(const std::filesystem::path& file) {
  BlockRows rows;
  const auto profile = decode_pprof(slurp(file));
  if (!profile.has_value() || profile->sample_types().size() != 2) {
    ADD_FAILURE() << file << " is no profile with two values";
    return rows;
  }
  rows.types_.reserve(profile->sample_types().size());
  for (const PprofValueType& type : profile->sample_types()) {
    rows.types_.push_back(type.type + "/" + type.unit);
  }
  rows.default_type_ = profile->default_sample_type;
  rows.rows_.reserve(profile->samples().size());
  for (std::size_t i = 0; i < profile->samples().size(); ++i) {
    const PprofSample& sample = profile->samples()[i];
    const auto values = profile->values(i);
    rows.rows_.push_back(
        {.frames = frames_in(*profile, sample.stack),
         .labels = texts_in(*profile, sample.labels),
         .sum = {.blocks = static_cast<double>(values[0]), .ns = static_cast<double>(values[1])}});
  }
  return rows;
}

BlockSum BlockRows::in(const std::string& function, const LabelTexts& labels) const {
  BlockSum sum;
  for (const BlockRow& row : rows_) {
    if (std::ranges::find(row.frames, function) == row.frames.end()) continue;
    if (!has_labels(row, labels)) continue;
    sum.blocks += row.sum.blocks;
    sum.ns += row.sum.ns;
  }
  return sum;
}

BlockSum BlockRows::with(const LabelTexts& labels) const {
  BlockSum sum;
  for (const BlockRow& row : rows_) {
    if (!has_labels(row, labels)) continue;
    sum.blocks += row.sum.blocks;
    sum.ns += row.sum.ns;
  }
  return sum;
}

OwnWaits OwnWaits::parse(const std::string& output) {
  std::string last;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("{\"functions\"")) last = line;
  }
  OwnWaits own;
  if (last.empty()) {
    ADD_FAILURE() << "the program printed nothing of its waits: " << output;
    return own;
  }
  const boost::json::value printed = boost::json::parse(last);
  for (const auto& function : printed.at("functions").as_object()) {
    own.functions_[name_of_member(function)] = {
        .count = function.value().at("count").to_number<std::uint64_t>(),
        .ns = number_of(function.value(), "ns"),
        .switches = number_of(function.value(), "switches")};
  }
  for (const auto& thread : printed.at("threads").as_object()) {
    own.threads_[name_of_member(thread)] = {.wall_ns = number_of(thread.value(), "wall_ns"),
                                            .run_ns = number_of(thread.value(), "run_ns"),
                                            .delay_ns = number_of(thread.value(), "delay_ns"),
                                            .switches = number_of(thread.value(), "switches")};
  }
  return own;
}

OwnWait OwnWaits::function(const std::string& name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? OwnWait{} : found->second;
}

OwnThread OwnWaits::thread(const std::string& name) const {
  const auto found = threads_.find(name);
  return found == threads_.end() ? OwnThread{} : found->second;
}

}  // namespace profd::e2e
