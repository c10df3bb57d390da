#include "tests/bpf/unwind_test.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "collectors/bpf/cpu_sums.h"
#include "tests/bpf/sampling_test.h"

namespace profd::test {
namespace {

profd_table_key key_of(const FileKey& file, std::uint32_t region) {
  return {.file = to_abi(file), .region = region, .reserved = 0};
}

std::string encode(const std::vector<UnwindRow>& rows) {
  UnwindTableWriter writer;
  for (const UnwindRow& row : rows) writer.add(row);
  auto bytes = writer.encode();
  if (!bytes) throw std::runtime_error(bytes.error().message);
  return *bytes;
}

UnwindTableView view_of(const std::string& bytes) {
  auto view = read_unwind_table(bytes);
  if (!view) throw std::runtime_error(view.error().message);
  return *view;
}

}  // namespace

// Passes records to the sink as the Sampler does, and deferred samples too.
class UnwindTest::Records {
 public:
  explicit Records(RecordingSink& sink) : sink_(sink) {}

  void on_record(const Record& record) noexcept {
    std::visit([this](const auto& view) { on(view); }, record);
  }

 private:
  void on(const SampleView& sample) noexcept { sink_.on_sample(sample); }
  void on(const DeferredSampleView& deferred) noexcept { sink_.on_deferred_sample(deferred); }
  void on(const MappingView& mapping) noexcept { sink_.on_mapping(mapping, nullptr); }
  void on(const ProcessView& process) noexcept { sink_.on_process(process); }
  void on(const UnmapView& unmap) noexcept { sink_.on_unmap(unmap); }
  void on(const BlockEndView&) noexcept {}
  void on(const WholeBlockView&) noexcept {}
  void on(const InterpretedStackView& stack) noexcept { sink_.on_interpreted(stack); }
  void on(const InterpretedCodeView& code) noexcept { sink_.on_code(code); }

  RecordingSink& sink_;
};

UnwindTest::UnwindTest() = default;
UnwindTest::~UnwindTest() = default;

void UnwindTest::SetUp() {
  std::string pattern = (std::filesystem::temp_directory_path() / "profd-unwind-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  directory_ = pattern;
  auto programs = Programs::load(Programs::built_in(), ring_bytes_);
  ASSERT_TRUE(programs) << programs.error().message;
  programs_.emplace(std::move(*programs));
  ASSERT_TRUE(programs_->list_tasks(static_cast<std::uint32_t>(::getpid())));
  auto filter = TargetFilter::open(*programs_);
  ASSERT_TRUE(filter) << filter.error().message;
  filter_.emplace(std::move(*filter));
  records_ = std::make_unique<Records>(sink_);
  auto rings = RecordReader::open(programs_->rings(),
                                  [this](const Record& record) { records_->on_record(record); });
  ASSERT_TRUE(rings) << rings.error().message;
  rings_ = std::move(*rings);
  auto maps = open_table_maps(*programs_);
  ASSERT_TRUE(maps) << maps.error().message;
  maps_ = std::move(*maps);
  while (arena_.empty()) {
    const auto arena = maps_->make_arena(0);
    ASSERT_TRUE(arena) << arena.error().message;
    if (*arena) arena_ = **arena;
  }
  maps_->rules()[PROFD_RULE_INDEX_END].kind = PROFD_RULE_END;
}

void UnwindTest::TearDown() {
  ASSERT_TRUE(rings_);
  EXPECT_EQ(rings_->malformed().records, 0U);
  EXPECT_EQ(sink_.unannounced(), 0U);
  if (!directory_.empty()) std::filesystem::remove_all(directory_);
}

void UnwindTest::sample(std::vector<std::uint32_t> pids) {
  Target target;
  target.pids = std::move(pids);
  const auto added = filter_->add(0, EventUse{.event_set = 0}, target, {});
  ASSERT_TRUE(added) << added.error().message;
  const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (bool has_begun = false; !has_begun;) {
    const auto begun = filter_->has_begun(0);
    ASSERT_TRUE(begun) << begun.error().message;
    ASSERT_LT(std::chrono::steady_clock::now(), guard);
    has_begun = *begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto tick = programs_->program("profd_tick");
  ASSERT_TRUE(tick);
  auto events = PerfEvents::open(event_of("cpu-clock", 999), 0, *tick);
  ASSERT_TRUE(events) << events.error().message;
  events_.emplace(std::move(*events));
}

void UnwindTest::drain_until(const std::function<bool()>& condition) {
  const auto guard = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > guard) {
      throw std::runtime_error("not within a minute; " + std::to_string(sink_.samples.size()) +
                               " samples");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    rings_->drain();
  }
}

const StoredMapping& UnwindTest::mapping_at(std::uint32_t pid, std::uint64_t address) {
  const auto find = [&] {
    return std::ranges::find_if(sink_.mappings, [&](const auto& entry) {
      const StoredMapping& mapping = entry.second;
      return mapping.process.tgid == pid && address >= mapping.start && address < mapping.end;
    });
  };
  drain_until([&] { return find() != sink_.mappings.end(); });
  return find()->second;
}

void UnwindTest::write_region(const UnwindTableView& table, const UnwindRegionView& region,
                              std::uint32_t buckets_at) {
  const auto buckets = arena_.subspan(buckets_at, region.bucket_starts.size());
  const auto rows = arena_.subspan(buckets_at + buckets.size(), region.rows.size());
  const auto first_row = static_cast<std::uint32_t>(buckets_at + buckets.size());
  std::ranges::copy(table.rules, maps_->rules().subspan(rules_used_).begin());
  std::ranges::transform(region.bucket_starts, buckets.begin(),
                         [&](std::uint32_t start) { return first_row + start; });
  std::ranges::transform(region.rows, rows.begin(), [&](std::uint32_t row) {
    const std::uint32_t rule = profd_row_rule(row);
    const bool own = (rule & PROFD_RULE_IN_DICTIONARY) != 0 &&
                     (rule & ~PROFD_RULE_IN_DICTIONARY) >= PROFD_RULE_FIRST_FREE;
    return own ? row + ((rules_used_ - PROFD_RULE_FIRST_FREE) << PROFD_ROW_RULE_SHIFT) : row;
  });
  rules_used_ += static_cast<std::uint32_t>(table.rules.size());
}

void UnwindTest::install(const FileKey& file, const std::vector<UnwindRow>& rows,
                         std::uint32_t number) {
  const std::string bytes = encode(rows);
  const UnwindTableView table = view_of(bytes);
  for (const UnwindRegionView& region : table.regions) {
    last_table_at_ = words_used_;
    write_region(table, region, words_used_);
    const auto put =
        maps_->put(key_of(file, region.header.region), {.used_ns = 0,
                                                        .number = number++,
                                                        .arena = 0,
                                                        .buckets_at = words_used_,
                                                        .first_bucket = region.header.first_bucket,
                                                        .bucket_count = region.header.bucket_count,
                                                        .state = PROFD_TABLE_READY,
                                                        .runtime = runtime_});
    ASSERT_TRUE(put) << put.error().message;
    words_used_ += static_cast<std::uint32_t>(region.bucket_starts.size() + region.rows.size());
  }
}

void UnwindTest::rewrite(const std::vector<UnwindRow>& rows) {
  const std::string bytes = encode(rows);
  const UnwindTableView table = view_of(bytes);
  write_region(table, table.regions.front(), last_table_at_);
}

void UnwindTest::install_none(const FileKey& file) {
  profd_table table{};
  table.state = PROFD_TABLE_NONE;
  table.runtime = runtime_;
  ASSERT_TRUE(maps_->put(key_of(file, 0), table));
}

void UnwindTest::remove(const FileKey& file) { maps_->erase(key_of(file, 0)); }

void UnwindTest::raise_tables() {
  maps_->raise_generation();
  const std::uint64_t grace_period = maps_->begin_grace_period();
  while (!maps_->is_over(grace_period)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::uint64_t UnwindTest::used_ns(const FileKey& file) { return maps_->used_ns(key_of(file, 0)); }

void UnwindTest::put(const char* map, std::uint32_t key, const void* value) {
  const auto fd = programs_->map(map);
  ASSERT_TRUE(fd) << fd.error().message;
  ASSERT_EQ(bpf_map_update_elem(*fd, &key, value, BPF_ANY), 0) << map;
}

profd_counters UnwindTest::counters() {
  const auto fd = programs_->map("profd_counters");
  const auto sum =
      fd ? profd::sum_of_cpus<profd_counters>(*fd) : Result<profd_counters>(fd.error());
  if (!sum) throw std::runtime_error(sum.error().message);
  return *sum;
}

std::vector<const StoredSample*> UnwindTest::collect(std::size_t count,
                                                     const SampleCondition& condition) {
  std::vector<const StoredSample*> found;
  rings_->drain();
  std::size_t next = sink_.samples.size();
  drain_until([&] {
    for (; next < sink_.samples.size(); ++next) {
      if (condition(sink_.samples[next])) found.push_back(&sink_.samples[next]);
    }
    return found.size() >= count;
  });
  return found;
}

}  // namespace profd::test
