#include "tests/formats/profile/pprof_oracles.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

std::string protoc(const std::string& arguments) {
  return std::string(PROTOC) + " --proto_path=" + PPROF_SCHEMA_DIRECTORY + " " + arguments +
         " profile.proto";
}

// "     1: 0x484dc6 M=1 runtime.memmove memmove.s:166 s=35"; inlined callers stand below.
struct RawLocations {
  std::map<std::string, std::string> frames;
  std::string last;

  void add(const std::string& line, bool with_addresses) {
    std::istringstream words(line);
    std::string id;
    words >> id;
    std::string rest;
    if (id.ends_with(':')) {
      last = id.substr(0, id.size() - 1);
      std::string address;
      words >> address;
      if (with_addresses) frames[last] = address;
      std::string mapping;
      words >> mapping;  // "M=1", or the name of a location without mapping
      if (!mapping.starts_with("M=")) frames[last] += " " + mapping;
      std::getline(words, rest);
      frames[last] += rest;
    } else {
      frames[last] += ", " + line.substr(line.find_first_not_of(' '));
    }
  }
};

bool is_label_line(const std::string& line) { return line.starts_with("                "); }

struct RawSample {
  std::string values;
  std::string labels;
  std::vector<std::string> locations;
};

RawSample raw_sample(const std::string& line) {
  RawSample sample;
  const std::size_t colon = line.find(':');
  std::istringstream values(line.substr(0, colon));
  for (std::string value; values >> value;) sample.values += value + " ";
  std::istringstream locations(line.substr(colon + 1));
  for (std::string id; locations >> id;) sample.locations.push_back(id);
  return sample;
}

}  // namespace

std::string protoc_decoded(std::string_view protobuf) {
  const ScratchDirectory scratch;
  const auto path = scratch.write("profile.pb", protobuf);
  return output_of(protoc("--decode=perftools.profiles.Profile") + " <" + path.string());
}

std::vector<int> top_level_fields(std::string_view protobuf) {
  const ScratchDirectory scratch;
  const auto path = scratch.write("profile.pb", protobuf);
  std::istringstream lines(output_of(std::string(PROTOC) + " --decode_raw <" + path.string()));
  std::vector<int> fields;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() < '0' || line.front() > '9') continue;
    const int field = std::stoi(line);
    if (fields.empty() || fields.back() != field) fields.push_back(field);
  }
  return fields;
}

std::string protoc_encoded(const std::string& text, const std::string& message) {
  const ScratchDirectory scratch;
  const auto from = scratch.write("profile.txt", text);
  const auto to = scratch.path() / "profile.pb";
  const std::string said = output_of(protoc("--encode=perftools.profiles." + message) + " <" +
                                     from.string() + " >" + to.string());
  return read_file(to);
}

std::string go_pprof(const std::string& arguments) {
  return output_of(std::string("HOME=/nonexistent TZ=UTC ") + GO_PPROF_BINARY +
                   " -symbolize=none " + arguments);
}

RawProfile go_raw(const std::string& files, bool with_addresses) {
  std::istringstream lines(go_pprof("-raw " + files));
  RawProfile raw;
  RawLocations locations;
  std::vector<RawSample> samples;
  enum { kHeader, kSamples, kLocations, kMappings } part = kHeader;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Samples:") part = kSamples;
    if (line == "Locations") part = kLocations;
    if (line == "Mappings") part = kMappings;
    if (line == "Samples:" || line == "Locations") continue;
    const bool is_types = part == kSamples && samples.empty() && line.find(':') == line.npos;
    if (part == kHeader || is_types) {
      raw.header.push_back(line);
    } else if (part == kSamples && is_label_line(line)) {
      samples.back().labels += line.substr(line.find_first_not_of(' '));
    } else if (part == kSamples) {
      samples.push_back(raw_sample(line));
    } else if (part == kLocations) {
      locations.add(line, with_addresses);
    }
  }
  for (const RawSample& sample : samples) {
    std::string text = sample.values + "| " + sample.labels + "|";
    for (const std::string& id : sample.locations) text += " " + locations.frames[id] + ";";
    raw.samples.push_back(text);
  }
  std::ranges::sort(raw.header);
  std::ranges::sort(raw.samples);
  EXPECT_FALSE(raw.samples.empty()) << files;
  return raw;
}

PprofProfile small_pprof() {
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}}, 1);
  profile.default_sample_type = "cpu";
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = 10000000;
  profile.time_ns = 1700000000000000000;
  profile.duration_ns = 60000000000;
  profile.comments = {"profd 0.1.0 on host"};
  profile.add_mapping({.file = profile.add_text("[all processes of host]")});
  const auto app = profile.add_mapping({.start = 0x1000,
                                        .limit = 0x3000,
                                        .file_offset = 0x1000,
                                        .file = profile.add_text("/usr/bin/app"),
                                        .build_id = profile.add_text("abcd")});
  const auto library = profile.add_mapping(
      {.start = 0x2000, .limit = 0x9000, .file = profile.add_text("/usr/lib/libfoo.so")});
  const auto work = profile.add_function({.name = profile.add_text("work"),
                                          .system_name = profile.add_text("_Z4workv"),
                                          .file = profile.add_text("work.cc"),
                                          .start_line = 10});
  const auto main = profile.add_function({.name = profile.add_text("main"),
                                          .system_name = profile.add_text("main"),
                                          .file = profile.add_text("main.cc"),
                                          .start_line = 3});
  const auto in_app = profile.add_location({.address = 0x1010, .mapping = app, .is_folded = true},
                                           std::vector<PprofLine>{{work, 12}, {main, 5}});
  const auto in_library = profile.add_location({.address = 0x2100, .mapping = library}, {});
  const auto labels =
      profile.add_labels({{.key = profile.add_text("pid"), .number = 42},
                          {.key = profile.add_text("comm"), .text = profile.add_text("app")}});
  const auto stack = profile.add_stack(std::vector{in_app, in_library});
  profile.add_sample({labels, stack}, std::vector<std::int64_t>{3, 30000000});
  return profile;
}

}  // namespace profd::test
