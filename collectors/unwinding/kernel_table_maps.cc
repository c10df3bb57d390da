#include <bpf/bpf.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "collectors/bpf/shared_array.h"
#include "collectors/host/thread_priority.h"
#include "collectors/unwinding/table_maps.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{PROFD_ARENA_WORDS} * sizeof(std::uint32_t);

using ArenaWords = SharedArray<std::uint32_t>;

Result<ArenaWords> create_arena(int arenas, std::uint32_t index) {
  bpf_map_create_opts options{};
  options.sz = sizeof(options);
  options.map_flags = BPF_F_MMAPABLE;
  const UniqueFd arena(bpf_map_create(BPF_MAP_TYPE_ARRAY, "profd_arena", sizeof(std::uint32_t),
                                      kArenaBytes, 1, &options));
  if (!arena.valid()) return fail_errno("could not create memory for unwind tables");
  auto words = map_array<std::uint32_t>(arena.get(), PROFD_ARENA_WORDS, "memory for unwind tables");
  if (!words) return words.error();
  const int fd = arena.get();
  if (bpf_map_update_elem(arenas, &index, &fd, BPF_ANY) != 0) {
    return fail_errno("could not install memory for unwind tables");
  }
  return words;
}

// A change of a map of maps waits for a grace period, which nobody but the thread does.
template <class Call>
auto on_thread(Call call) {
  return std::async(std::launch::async, [call = std::move(call)]() mutable {
    ::prctl(PR_SET_NAME, "unwind-memory");
    lower_priority_of_worker();
    return call();
  });
}

bool is_running(const auto& result) {
  return result.valid() && result.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

class KernelTableMaps final : public TableMaps {
 public:
  explicit KernelTableMaps(const Programs& programs) : programs_(programs) {}
  Result<void> open();

  Result<std::optional<std::span<std::uint32_t>>> make_arena(std::uint32_t index) override;
  bool drop_arena(std::uint32_t index) override;
  std::span<profd_rule> rules() override { return {rules_.get(), PROFD_MAX_RULES}; }
  Result<void> put(const profd_table_key& key, const profd_table& table) override;
  void erase(const profd_table_key& key) override { bpf_map_delete_elem(tables_, &key); }
  std::uint64_t used_ns(const profd_table_key& key) override;
  void raise_generation() override;
  std::uint64_t begin_grace_period() override { return programs_.grace_periods().begin(); }
  [[nodiscard]] bool is_over(std::uint64_t grace_period) const override {
    return programs_.grace_periods().is_over(grace_period);
  }

 private:
  const Programs& programs_;
  int tables_ = -1;  // programs_ owns the descriptors
  int arenas_ = -1;
  SharedArray<profd_rule> rules_;
  SharedArray<profd_filter> filter_;
  std::vector<ArenaWords> arena_words_;  // null: dropped
  // Last, since their ends are waited for.
  std::future<Result<ArenaWords>> new_arena_;
  std::future<void> dropped_arena_;
};

Result<void> KernelTableMaps::open() {
  const auto tables = programs_.map("profd_tables");
  const auto arenas = programs_.map("profd_arenas");
  const auto rules = programs_.map("profd_rules");
  const auto filter = programs_.map("profd_filter");
  for (const auto* map : {&tables, &arenas, &rules, &filter}) {
    if (!*map) return map->error();
  }
  tables_ = *tables;
  arenas_ = *arenas;
  auto rule_array = map_array<profd_rule>(*rules, PROFD_MAX_RULES, "the unwind rules");
  if (!rule_array) return rule_array.error();
  rules_ = std::move(*rule_array);
  auto filter_array = map_array<profd_filter>(*filter, 1, "the filter");
  if (!filter_array) return filter_array.error();
  filter_ = std::move(*filter_array);
  return {};
}

Result<std::optional<std::span<std::uint32_t>>> KernelTableMaps::make_arena(std::uint32_t index) {
  if (is_running(dropped_arena_)) return std::optional<std::span<std::uint32_t>>();
  if (!new_arena_.valid()) {
    try {
      new_arena_ = on_thread([arenas = arenas_, index] { return create_arena(arenas, index); });
    } catch (const std::system_error& error) {
      return fail(ErrorCode::kIo, std::string("no thread for unwind tables: ") + error.what());
    }
  }
  if (is_running(new_arena_)) return std::optional<std::span<std::uint32_t>>();
  auto words = new_arena_.get();
  if (!words) return words.error();
  if (arena_words_.size() <= index) arena_words_.resize(index + 1);
  arena_words_[index] = std::move(*words);
  return std::optional(std::span(arena_words_[index].get(), PROFD_ARENA_WORDS));
}

bool KernelTableMaps::drop_arena(std::uint32_t index) {
  if (new_arena_.valid() || is_running(dropped_arena_)) return false;
  try {
    dropped_arena_ = on_thread([arenas = arenas_, index, words = arena_words_[index].get()] {
      bpf_map_delete_elem(arenas, &index);
      UnmapArray{kArenaBytes}(words);
    });
  } catch (const std::system_error&) {
    return false;
  }
  (void)arena_words_[index].release();
  return true;
}

// The system call orders the rows, written before it, before the entry that refers to them.
Result<void> KernelTableMaps::put(const profd_table_key& key, const profd_table& table) {
  if (bpf_map_update_elem(tables_, &key, &table, BPF_ANY) != 0) {
    return fail_errno("could not install an unwind table");
  }
  return {};
}

std::uint64_t KernelTableMaps::used_ns(const profd_table_key& key) {
  profd_table table{};
  return bpf_map_lookup_elem(tables_, &key, &table) == 0 ? table.used_ns : 0;
}

void KernelTableMaps::raise_generation() {
  std::atomic_ref(filter_->table_generation).fetch_add(1);
}

}  // namespace

Result<std::unique_ptr<TableMaps>> open_table_maps(const Programs& programs) {
  auto maps = std::make_unique<KernelTableMaps>(programs);
  if (auto opened = maps->open(); !opened) return opened.error();
  return std::unique_ptr<TableMaps>(std::move(maps));
}

}  // namespace profd
