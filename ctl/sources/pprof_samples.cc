#include "ctl/sources/pprof_samples.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ctl/sources/kernel_object.h"
#include "ctl/views/group_key.h"
#include "formats/base/errors.h"
#include "formats/profile/block_names.h"
#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

constexpr std::string_view kNoValue = "-";  // of a label of profd
constexpr std::uint32_t kNotAdded = 0xffffffff;

// How many nanoseconds the unit has; 0: it is no unit of time.
std::int64_t ns_of_unit(std::string_view unit) {
  if (unit == "nanoseconds" || unit == "ns") return 1;
  if (unit == "microseconds" || unit == "us") return 1'000;
  if (unit == "milliseconds" || unit == "ms") return 1'000'000;
  return unit == "seconds" || unit == "s" ? 1'000'000'000 : 0;
}

std::int64_t limited_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

// Which values of a sample are the number of samples and their time.
struct ValuePlaces {
  std::optional<std::size_t> count;
  std::optional<std::size_t> cpu;
  TimeKind kind = TimeKind::kCpu;
  std::int64_t ns_per_cpu = 1;
  std::int64_t period_ns = 0;  // of a sample; 0: unknown
  std::string event;

  [[nodiscard]] SampleValue value_of(std::span<const std::int64_t> values) const {
    SampleValue value;
    if (count) value.samples = values[*count];
    if (cpu) value.cpu_ns = limited_product(values[*cpu], ns_per_cpu);
    if (!cpu && period_ns > 0) value.cpu_ns = limited_product(value.samples, period_ns);
    if (!count) value.samples = period_ns > 0 ? value.cpu_ns / period_ns : 1;
    return value;
  }
};

// "vmlinux", "vmlinux-6.1.0-13-amd64", "vmlinux.debug"; not "vmlinux-to-elf".
bool is_kernel_file(std::string_view name) {
  constexpr std::string_view kName = "vmlinux";
  if (!name.starts_with(kName)) return false;
  name.remove_prefix(kName.size());
  if (name.empty() || name[0] == '.') return true;
  return name.size() > 1 && name[0] == '-' && name[1] >= '0' && name[1] <= '9';
}

bool is_number_between(std::string_view text, std::string_view start, std::string_view end) {
  if (!text.starts_with(start) || !text.ends_with(end)) return false;
  if (text.size() <= start.size() + end.size()) return false;
  text.remove_prefix(start.size());
  text.remove_suffix(end.size());
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// As perf calls JIT code (tools/perf/util/map.c, dso.c, jitdump.c): by the perf map of its process,
// the jitdump, or the file that "perf inject --jit" made of a function.
bool is_jit_object_of_perf(std::string_view object) {
  const std::string_view name = base_name(object);
  return object == "//anon" || name.starts_with("[JIT]") || name.starts_with("jitted-") ||
         is_number_between(name, "perf-", ".map") || is_number_between(name, "jit-", ".dump");
}

bool is_count_of_samples(std::string_view type) {
  return type == "samples" || type == "sample" || type.ends_with("_sample") || type == kBlocksType;
}

// Whether the type is one of times, and takes the place of the last one: CPU time goes before the
// others, as in profiles of programs that count both.
bool is_better_time(std::optional<TimeKind> kind, const ValuePlaces& places) {
  if (!kind) return false;
  return !places.cpu || (*kind == TimeKind::kCpu && places.kind != TimeKind::kCpu);
}

Result<ValuePlaces> places_of_values(const PprofTables& tables) {
  ValuePlaces places;
  std::string types;
  bool has_other_time = false;
  for (std::size_t i = 0; i < tables.sample_types.size(); ++i) {
    const std::string_view type = tables.texts[tables.sample_types[i].type];
    const std::int64_t ns = ns_of_unit(tables.texts[tables.sample_types[i].unit]);
    types += (types.empty() ? "" : ", ") + std::string(type);
    const auto kind = ns != 0 ? time_kind_of_type(type) : std::nullopt;
    if (is_better_time(kind, places)) {
      places.cpu = i;
      places.kind = *kind;
      places.ns_per_cpu = ns;
    } else if (ns == 0 && is_count_of_samples(type) && !places.count) {
      places.count = i;
    } else {
      has_other_time = has_other_time || ns != 0;
    }
  }
  if (!places.cpu && (!places.count || has_other_time)) {
    return fail(ErrorCode::kMalformed,
                "it is no CPU profile: its values are " +
                    (types.empty() ? "missing" : types.substr(0, 256)),
                "go tool pprof FILE shows heap, mutex, block and other profiles");
  }
  if (is_of_blocks(places.kind)) {
    places.event = kind_names(places.kind).event;
    return places;
  }
  const std::string_view period = tables.texts[tables.period_type.type];
  const std::int64_t ns = ns_of_unit(tables.texts[tables.period_type.unit]);
  if (period == "cpu" && tables.period > 0) places.period_ns = limited_product(tables.period, ns);
  places.event = period.empty() ? "cpu" : std::string(period);
  return places;
}

class PprofImport {
 public:
  explicit PprofImport(Samples& to) : to_(to) {}

  void add(const PprofTables& tables, const PprofPackedSample& sample) {
    if (!begun_) begin(tables);
    if (error_) return;
    SampleValue value = places_.value_of(sample.values);
    if (is_of_blocks(places_.kind)) value.longest_ns = sample.longest;
    if (value.samples < 0 || value.cpu_ns < 0) {
      error_ = fail(ErrorCode::kMalformed,
                    "it has negative values: it is the difference of two profiles",
                    "compare the profiles themselves: profctl diff BASE NEW");
      return;
    }
    to_.add_encoded(sample.frames, labels_of(tables, sample.labels), value);
  }

  // For a profile without samples, too.
  Result<void> finish(const PprofTables& tables) {
    if (!begun_) begin(tables);
    if (error_) return *error_;
    if (tables.times.empty()) return {};
    auto times = decode_sample_times(tables.times);
    if (!times) return times.error();
    if (to_.set_times(std::move(*times))) return {};
    return malformed("its times are of other samples");
  }

 private:
  void begin(const PprofTables& tables) {
    begun_ = true;
    auto places = places_of_values(tables);
    if (!places) {
      error_ = places.error();
      return;
    }
    places_ = std::move(*places);
    to_.event = places_.event;
    to_.has_cpu_time = places_.cpu || places_.period_ns > 0;
    to_.time_kind = places_.kind;
    to_.has_counts = places_.count || !is_of_blocks(places_.kind);
    to_.duration_ns = std::max<std::int64_t>(tables.duration_ns, 0);
    to_.time_ns = std::max<std::int64_t>(tables.time_ns, 0);
    texts_.assign(tables.texts.size(), kNotAdded);
    for (const PprofTables::Location& location : tables.locations) add_location(tables, location);
  }

  std::uint32_t text(const PprofTables& tables, std::uint32_t index) {
    if (texts_[index] == kNotAdded) texts_[index] = to_.add_text(tables.texts[index]);
    return texts_[index];
  }

  void add_location(const PprofTables& tables, const PprofTables::Location& location) {
    const bool has_mapping = location.mapping != PprofLocation::kNoMapping;
    const std::uint32_t object = has_mapping ? tables.mappings[location.mapping].file : 0;
    const FrameKind kind = kind_of_object(tables.texts[object]);
    frames_.clear();
    for (const PprofLine& line : tables.lines_of(location)) {
      const PprofFunction& function = tables.functions[line.function];
      const bool is_name = function.name != 0;
      const std::uint32_t name = text(tables, is_name ? function.name : function.system_name);
      const SampledFunction added{.name = name,
                                  .file = text(tables, function.file),
                                  .object = text(tables, object),
                                  .kind = kind};
      frames_.push_back(
          {.function = to_.add_function(added),
           .line = static_cast<std::uint32_t>(std::clamp<std::int64_t>(line.line, 0, 0xffffffff))});
    }
    if (frames_.empty()) frames_.push_back(unnamed(tables, object, kind));
    (void)to_.add_location(frames_);
  }

  SampledFrame unnamed(const PprofTables& tables, std::uint32_t object, FrameKind kind) {
    std::string name(base_name(tables.texts[object]));
    if (name.empty()) name = "unknown";
    if (!name.starts_with('[')) name = "[" + name + "]";
    return {.function = to_.add_function(
                {.name = to_.add_text(name), .object = text(tables, object), .kind = kind})};
  }

  // Most samples have the labels of the one before.
  std::uint32_t labels_of(const PprofTables& tables, std::span<const PprofLabel> labels) {
    if (has_last_ && std::ranges::equal(labels, last_)) return last_set_;
    SampleLabels set;
    for (const PprofLabel& label : labels) add_label(tables, label, set);
    last_.assign(labels.begin(), labels.end());
    has_last_ = true;
    last_set_ = to_.add_labels(set);
    return last_set_;
  }

  void add_label(const PprofTables& tables, const PprofLabel& label, SampleLabels& to) {
    const std::string_view key = tables.texts[label.key];
    const auto number =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(label.number, 0, 0xffffffff));
    if (key == "pid") to.pid = number;
    if (key == "tid") to.tid = number;
    std::uint32_t* const member = member_of(key, to);
    if (member != nullptr && tables.texts[label.text] != kNoValue)
      *member = text(tables, label.text);
  }

  static std::uint32_t* member_of(std::string_view key, SampleLabels& of) {
    if (key == "comm") return &of.comm;
    if (key == "unit") return &of.unit;
    if (key == "container") return &of.container;
    if (key == "user") return &of.user;
    if (key == "runtime") return &of.runtime;
    if (key == "thread") return &of.thread;
    if (key == kStateLabel) return &of.state;
    if (key == kWaitLabel) return &of.wait;
    return key == kOngoingLabel ? &of.ongoing : nullptr;
  }

  Samples& to_;
  bool begun_ = false;
  std::optional<Error> error_;
  ValuePlaces places_;
  std::vector<std::uint32_t> texts_;  // by index in the tables
  std::vector<SampledFrame> frames_;
  std::vector<PprofLabel> last_;
  bool has_last_ = false;
  std::uint32_t last_set_ = 0;
};

}  // namespace

FrameKind kind_of_object(std::string_view object) {
  const std::string_view name = base_name(object);
  if (name.starts_with("[kernel") || is_kernel_file(name) || is_kernel_image(object)) {
    return FrameKind::kKernel;
  }
  if (is_interpreter_object(object)) return FrameKind::kInterpreted;
  const bool is_runtime =
      name.starts_with("[jit") || is_jit_image(object) || is_jit_object_of_perf(object);
  return is_runtime ? FrameKind::kRuntime : FrameKind::kNative;
}

Result<Samples> samples_of_pprof(std::string protobuf) {
  Samples samples;
  const std::string_view kept = samples.keep(std::move(protobuf));
  PprofImport import(samples);
  const auto tables =
      read_pprof_samples(kept, [&import](const PprofTables& of, const PprofPackedSample& sample) {
        import.add(of, sample);
      });
  if (!tables) return error_of(tables.error());
  if (auto finished = import.finish(*tables); !finished) return finished.error();
  return samples;
}

}  // namespace profd
