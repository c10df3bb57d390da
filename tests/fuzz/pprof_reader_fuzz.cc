// Any file: what decodes encodes again, to bytes that decode to the same profile; and a merge of a
// profile with itself has the same samples.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/fuzz/require.h"

namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

using namespace profd;

void check_tables(const PprofTables& tables) {
  const auto is_text = [&](std::uint32_t text) { return text < tables.texts.size(); };
  require(tables.texts.front().empty(), "text 0 is empty");
  for (const auto& location : tables.locations) {
    require(
        location.mapping == PprofLocation::kNoMapping || location.mapping < tables.mappings.size(),
        "mappings lie in their table");
    for (const PprofLine& line : tables.lines_of(location)) {
      require(line.function < tables.functions.size(), "functions lie in their table");
    }
  }
  for (const PprofLabel& label : tables.labels) {
    require(is_text(label.key) && is_text(label.text) && is_text(label.unit), "labels have texts");
  }
  for (const std::uint32_t frame : tables.frames) {
    require(frame < tables.locations.size(), "frames lie in their table");
  }
  require(tables.values.size() == tables.samples.size() * tables.sample_types.size(),
          "each sample has its values");
  require(tables.longest.empty() || tables.longest.size() == tables.samples.size(),
          "each sample has its longest block, or none has");
}

void check_profile(const PprofProfile& profile) {
  for (std::uint32_t i = 0; i < profile.text_count(); ++i) {
    require(profile.text(i).size() <= PprofProfile::kMaxTextBytes, "texts are short");
    require(is_valid_utf8(profile.text(i)), "texts are UTF-8");
  }
  for (const PprofLocation& location : profile.locations()) {
    require(!profile.lines(location.lines).empty(), "each location has a line");
  }
}

void check_merge(const PprofTables& tables, const PprofProfile& profile) {
  PprofMerge merge({.drop_addresses = false}, 1);
  require(merge.add(tables).has_value(), "the first profile is added");
  require(merge.add(tables).has_value(), "a profile fits itself");
  require(merge.profile().samples().size() == profile.samples().size(), "equal samples");
  PprofMerge without({.drop_addresses = true}, 1);
  require(without.add(tables).has_value(), "the first profile is added");
  require(without.profile().samples().size() <= profile.samples().size(), "no sample is new");
}

// Samples that are passed on one by one are those of the tables.
void check_samples(std::string_view protobuf, const PprofTables& tables) {
  std::size_t next = 0;
  const auto passed =
      read_pprof_samples(protobuf, [&](const PprofTables& of, const PprofPackedSample& sample) {
        require(next < tables.samples.size(), "no sample is new");
        const PprofTables::Sample& expected = tables.samples[next];
        require(of.locations.size() == tables.locations.size(), "the tables are complete");
        require(std::ranges::equal(sample.labels, tables.labels_of(expected)), "equal labels");
        require(std::ranges::equal(sample.values, tables.values_of(next)), "equal values");
        require(sample.longest == tables.longest_of(next), "equal longest blocks");
        std::size_t frames = 0;
        for (const char c : sample.frames) frames += static_cast<unsigned char>(c) < 0x80 ? 1U : 0U;
        require(frames == expected.depth, "as many frames");
        ++next;
      });
  require(passed.has_value(), "what the tables hold is passed on");
  require(next == tables.samples.size(), "each sample is passed on");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto protobuf = unpack_pprof(file, kMaxBytes);
  if (!protobuf) return 0;
  require(protobuf->size() <= kMaxBytes, "the limit holds");
  const auto tables = read_pprof_tables(*protobuf);
  if (!tables) return 0;
  check_tables(*tables);
  check_samples(*protobuf, *tables);
  const PprofProfile profile = profile_of(*tables);
  check_profile(profile);
  check_merge(*tables, profile);
  const std::string encoded = encode_pprof(profile);
  const auto again = decode_pprof(encoded);
  require(again.has_value(), "what was encoded decodes");
  require(encode_pprof(*again) == encoded, "an equal profile has equal bytes");
  return 0;
}
