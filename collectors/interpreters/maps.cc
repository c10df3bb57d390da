#include "collectors/interpreters/maps.h"

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>

#include "collectors/bpf/shared_array.h"

namespace profd {
namespace {

// All are read by programs at any time: what a program sees half written leads it to memory that
// fails its checks.
class KernelInterpreterMaps final : public InterpreterMaps {
 public:
  KernelInterpreterMaps(SharedArray<profd_runtime> runtimes, SharedArray<profd_layout> layouts,
                        SharedArray<profd_code_tags> tags)
      : runtimes_(std::move(runtimes)), layouts_(std::move(layouts)), tags_(std::move(tags)) {}

  // It is of no kind until all of it is there.
  void put_runtime(std::uint16_t number, const profd_runtime& runtime) override {
    profd_runtime& entry = std::span(runtimes_.get(), PROFD_MAX_RUNTIMES)[number];
    const std::atomic_ref kind(entry.kind);
    (void)kind.exchange(PROFD_RUNTIME_NONE, std::memory_order_acq_rel);
    profd_runtime unused = runtime;
    unused.kind = PROFD_RUNTIME_NONE;
    entry = unused;
    kind.store(runtime.kind, std::memory_order_release);
  }
  void put_layout(std::uint8_t number, const profd_layout& layout) override {
    std::span(layouts_.get(), PROFD_MAX_LAYOUTS)[number] = layout;
  }
  void ask_again(std::uint64_t id) override {
    const std::size_t first = std::size_t{profd_code_set(id)} * PROFD_CODE_WAYS;
    for (std::uint32_t& tag : std::span(tags_->tags).subspan(first, PROFD_CODE_WAYS)) {
      const std::atomic_ref shared(tag);
      if (shared.load(std::memory_order_relaxed) == profd_code_tag(id)) {
        shared.store(0, std::memory_order_relaxed);
      }
    }
  }

 private:
  SharedArray<profd_runtime> runtimes_;
  SharedArray<profd_layout> layouts_;
  SharedArray<profd_code_tags> tags_;
};

}  // namespace

// An object without the maps is a test's.
Result<std::unique_ptr<InterpreterMaps>> open_interpreter_maps(const Programs& programs) {
  if (!programs.has_interpreters()) return std::unique_ptr<InterpreterMaps>();
  const auto runtime_map = programs.map("profd_runtimes");
  const auto layout_map = programs.map("profd_layouts");
  const auto tag_map = programs.map("profd_code_tags");
  if (!runtime_map) return runtime_map.error();
  if (!layout_map) return layout_map.error();
  if (!tag_map) return tag_map.error();
  auto runtimes = map_array<profd_runtime>(*runtime_map, PROFD_MAX_RUNTIMES, "the interpreters");
  if (!runtimes) return runtimes.error();
  auto layouts = map_array<profd_layout>(*layout_map, PROFD_MAX_LAYOUTS, "the layouts");
  if (!layouts) return layouts.error();
  auto tags = map_array<profd_code_tags>(*tag_map, 1, "the marks of code objects");
  if (!tags) return tags.error();
  return std::unique_ptr<InterpreterMaps>(std::make_unique<KernelInterpreterMaps>(
      std::move(*runtimes), std::move(*layouts), std::move(*tags)));
}

}  // namespace profd
