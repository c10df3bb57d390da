#include "collectors/bpf/switch_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <bpf/switch.skel.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "collectors/bpf/cpu_sums.h"
#include "collectors/bpf/iterators.h"
#include "collectors/bpf/object_errors.h"

namespace profd {
namespace {

constexpr std::array kSharedMaps = {"profd_filter", "profd_targets", "profd_comms",
                                    "profd_uids",   "profd_cgroups", "profd_tables",
                                    "profd_arenas", "profd_rules",   "profd_rings"};

// Shared as well, where both read interpreted frames.
constexpr std::array kSharedInterpreterMaps = {"profd_runtimes", "profd_layouts",
                                               "profd_code_tags"};

constexpr const char* kNeeds =
    "off-CPU needs the tracepoint sched_switch with BTF; could not load its BPF programs";

}  // namespace

void SwitchPrograms::Close::operator()(bpf_object* object) const noexcept {
  bpf_object__close(object);
}

void SwitchPrograms::Unmap::operator()(profd_block_rate* rate) const noexcept {
  ::munmap(rate, sizeof(profd_block_rate));
}

Result<SwitchPrograms> SwitchPrograms::load(const Programs& shared) {
  SwitchPrograms programs;
  auto loaded = programs.load_object(shared, shared.has_interpreters());
  if (!loaded && shared.has_interpreters()) loaded = programs.load_object(shared, false);
  if (!loaded) return loaded.error();
  if (auto mapped = programs.map_rate(); !mapped) return mapped.error();
  return programs;
}

Result<void> SwitchPrograms::load_object(const Programs& shared, bool with_interpreters) {
  std::size_t size = 0;
  const void* const bytes = profd_switch__elf_bytes(&size);
  std::vector<char> log(1 << 16);
  bpf_object_open_opts options{};
  options.sz = sizeof(options);
  options.object_name = "profd_switch";
  options.kernel_log_buf = log.data();
  options.kernel_log_size = log.size();
  object_.reset(bpf_object__open_mem(bytes, size, &options));
  if (!object_) return fail_errno("could not open the BPF object of off-CPU");
  // Ids of mappings and of code are hashes with the key, and those of both objects are compared.
  if (auto set = set_hash_key(object_.get(), shared.hash_key()); !set) return set;
  set_interpreters(object_.get(), with_interpreters);
  if (auto reused = reuse_maps(shared); !reused) return reused;
  if (const int code = bpf_object__load(object_.get()); code != 0) {
    return load_error(kNeeds, code, log);
  }
  return {};
}

Result<void> SwitchPrograms::reuse_maps(const Programs& shared) {
  for (const char* const name : kSharedMaps) {
    if (auto reused = reuse_map(shared, name); !reused) return reused;
  }
  if (!shared.has_interpreters()) return {};
  for (const char* const name : kSharedInterpreterMaps) {
    if (auto reused = reuse_map(shared, name); !reused) return reused;
  }
  return {};
}

Result<void> SwitchPrograms::reuse_map(const Programs& shared, const char* name) {
  const auto fd = shared.map(name);
  if (!fd) return fd.error();
  bpf_map* const map = bpf_object__find_map_by_name(object_.get(), name);
  if (map == nullptr) {
    return fail(ErrorCode::kInternal, "the BPF object of off-CPU has no map " + std::string(name));
  }
  if (const int code = bpf_map__reuse_fd(map, *fd); code != 0) {
    return fail_errno("could not share the map " + std::string(name), -code);
  }
  return {};
}

Result<void> SwitchPrograms::map_rate() {
  const auto fd = map("profd_block_rate");
  if (!fd) return fd.error();
  void* const memory =
      ::mmap(nullptr, sizeof(profd_block_rate), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (memory == MAP_FAILED) return fail_errno("could not map the rate of walks");
  rate_.reset(static_cast<profd_block_rate*>(memory));
  return {};
}

Result<int> SwitchPrograms::map(const char* name) const {
  const int fd = bpf_object__find_map_fd_by_name(object_.get(), name);
  if (fd < 0) {
    return fail(ErrorCode::kInternal, "the BPF object of off-CPU has no map " + std::string(name));
  }
  return fd;
}

Result<int> SwitchPrograms::program(const char* name) const {
  const bpf_program* const program = bpf_object__find_program_by_name(object_.get(), name);
  const int fd = program == nullptr ? -1 : bpf_program__fd(program);
  if (fd < 0) {
    return fail(ErrorCode::kInternal,
                "the BPF object of off-CPU has no program " + std::string(name));
  }
  return fd;
}

Result<UniqueFd> SwitchPrograms::attach_tracepoint(const char* name) const {
  const auto fd = program(name);
  if (!fd) return fd.error();
  UniqueFd link(bpf_raw_tracepoint_open(nullptr, *fd));
  if (!link.valid()) return fail_errno("could not attach " + std::string(name));
  return link;
}

Result<std::string> SwitchPrograms::read(const char* iterator, std::uint32_t only_tid) const {
  const auto fd = program(iterator);
  if (!fd) return fd.error();
  return read_iterator(*fd, iterator, only_tid);
}

// The iterator that watches threads runs in profd, and learns what it needs from that.
Result<void> SwitchPrograms::learn_identity() const {
  const auto own = read("profd_watch_threads", static_cast<std::uint32_t>(::getpid()));
  if (!own) return own.error();
  return {};
}

Result<std::uint64_t> SwitchPrograms::watch_threads() const {
  const auto before = block_counters();
  if (!before) return before.error();
  if (const auto watched = read("profd_watch_threads", 0); !watched) return watched.error();
  const auto after = block_counters();
  if (!after) return after.error();
  return after->threads_watched - before->threads_watched;
}

Result<std::string> SwitchPrograms::list_open_blocks() const {
  return read("profd_open_blocks", 0);
}

Result<profd_counters> SwitchPrograms::counters() const {
  const auto fd = map("profd_counters");
  if (!fd) return fd.error();
  return sum_of_cpus<profd_counters>(*fd);
}

Result<profd_switch_counters> SwitchPrograms::block_counters() const {
  const auto fd = map("profd_switch_counters");
  if (!fd) return fd.error();
  return sum_of_cpus<profd_switch_counters>(*fd);
}

}  // namespace profd
