#include "ctl/views/samples_gperftools.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/base/utf8_text.h"
#include "formats/elf/image.h"

namespace profd {
namespace {

constexpr std::uint64_t kFirstAddress = 0x10000000;
constexpr std::uint64_t kStride = 16;
constexpr std::int64_t kNsPerUs = 1000;

// One function for each name, so that a name has one row in a reader.
struct NamedFunctions {
  std::vector<ElfSymbol> symbols;
  std::vector<std::uint64_t> addresses;  // by number of the function
};

NamedFunctions name_functions(const Samples& samples) {
  NamedFunctions named;
  boost::unordered_flat_map<std::uint32_t, std::uint64_t> known;  // addresses by name
  for (const SampledFunction& function : samples.functions()) {
    const std::uint64_t next = kFirstAddress + known.size() * kStride;
    const auto [found, added] = known.try_emplace(function.name, next);
    if (added) {
      const std::string name = printable_utf8(samples.text(function.name), kMaxPrintableBytes);
      named.symbols.push_back({next, kStride, name.empty() ? "[unknown]" : name});
    }
    named.addresses.push_back(found->second);
  }
  return named;
}

}  // namespace

ImagedProfile gperftools_of_samples(const Samples& samples) {
  NamedFunctions named = name_functions(samples);
  const AbsoluteImage image{
      .functions = std::move(named.symbols), .build_id = {}, .text_start = 0, .text_end = 0};
  const ImagePlacement place = placement_of(image);
  ImagedProfile made{.profile = {}, .image = encode_absolute_image(image)};
  made.profile.mappings.push_back({place.start, place.end, place.file_offset, {}});
  const SampleValue all = samples.sum();
  const bool is_of_times = samples.has_cpu_time && is_of_blocks(samples.time_kind);
  if (is_of_times) {
    made.profile.period = 1;
  } else if (samples.has_cpu_time && all.samples > 0) {
    made.profile.period =
        static_cast<std::uint64_t>(std::max<std::int64_t>(all.cpu_ns / all.samples / kNsPerUs, 1));
  }
  std::vector<std::uint32_t> stack;
  std::vector<Frame> frames;
  std::int64_t rest_ns = 0;  // below a microsecond, of the rows before
  for (const Samples::Row& row : samples.rows()) {
    samples.read_stack(row, stack);
    frames.clear();
    for (const std::uint32_t frame : stack) {
      frames.push_back({named.addresses[samples.frames()[frame].function], PcKind::kExact});
    }
    std::int64_t count = row.value.samples;
    if (is_of_times) {
      count = row.value.cpu_ns / kNsPerUs;
      rest_ns += row.value.cpu_ns % kNsPerUs;
      count += rest_ns / kNsPerUs;
      rest_ns %= kNsPerUs;
    }
    if (is_of_times && count == 0) continue;
    made.profile.add_stack(frames, static_cast<std::uint64_t>(count));
  }
  return made;
}

}  // namespace profd
