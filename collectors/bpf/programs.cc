#include "collectors/bpf/programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <bpf/sampler.skel.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <tuple>

#include "collectors/bpf/iterators.h"
#include "collectors/bpf/object_errors.h"

namespace profd {
namespace {

Result<HashKey> draw_hash_key() {
  HashKey key{};
  if (::getrandom(key.data(), sizeof(key), 0) != static_cast<ssize_t>(sizeof(key))) {
    return fail_errno("could not read random bytes for the hash key");
  }
  return key;
}

// Whether the kernel can run a program at the entry of a function. It cannot without
// CONFIG_FUNCTION_TRACER, or where a boot option or sysctl forbids it.
bool can_hook(const char* function) {
  const int id = libbpf_find_vmlinux_btf_id(function, BPF_TRACE_FENTRY);
  if (id <= 0) return false;
  constexpr std::array<bpf_insn, 2> kReturn0{
      bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
      bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  bpf_prog_load_opts options{};
  options.sz = sizeof(options);
  options.expected_attach_type = BPF_TRACE_FENTRY;
  options.attach_btf_id = static_cast<std::uint32_t>(id);
  const UniqueFd program(bpf_prog_load(BPF_PROG_TYPE_TRACING, "profd_probe", "GPL", kReturn0.data(),
                                       kReturn0.size(), &options));
  return program.valid() && UniqueFd(bpf_raw_tracepoint_open(nullptr, program.get())).valid();
}

// Chooses the programs that report unmaps. The kernel may support none of them; all other programs
// work without.
void choose_unmap_hooks(bpf_object* object) {
  const auto choose = [object](const char* name) {
    bpf_program* const program = bpf_object__find_program_by_name(object, name);
    if (program != nullptr) bpf_program__set_autoload(program, true);
  };
  if (can_hook("__x64_sys_munmap") && can_hook("__x64_sys_mmap")) {
    choose("profd_munmap_call");
    choose("profd_mmap_call");
  } else if (libbpf_find_vmlinux_btf_id("mmap_lock_start_locking", BPF_TRACE_RAW_TP) > 0) {
    choose("profd_mmap_lock");
  }
}

// bpf(2) waits for an RCU grace period after every change of a map of maps, so that what was
// removed can be freed (kernel/bpf/syscall.c, maybe_wait_bpf_programs). To store the same ring
// again changes nothing else.
void store_ring_again(int rings, int ring) {
  const std::uint32_t cpu = 0;
  bpf_map_update_elem(rings, &cpu, &ring, BPF_ANY);
}

// The initial read-only data of an object that is not loaded yet. Empty: it has none.
std::span<std::byte> read_only_data(bpf_object* object) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (!std::string_view(bpf_map__name(map)).ends_with(".rodata")) continue;
    std::size_t size = 0;
    void* const data = const_cast<void*>(bpf_map__initial_value(map, &size));
    if (data != nullptr) return {static_cast<std::byte*>(data), size};
  }
  return {};
}

// A constant of the read-only data, by its name. Empty: the object has none of this name.
std::span<std::byte> find_constant(bpf_object* object, std::string_view name) {
  const std::span<std::byte> data = read_only_data(object);
  const btf* const types = bpf_object__btf(object);
  if (data.empty() || types == nullptr) return {};
  const int id = btf__find_by_name_kind(types, ".rodata", BTF_KIND_DATASEC);
  if (id <= 0) return {};
  const btf_type* const section = btf__type_by_id(types, static_cast<std::uint32_t>(id));
  const std::span variables(btf_var_secinfos(section), btf_vlen(section));
  for (const btf_var_secinfo& variable : variables) {
    const btf_type* const type = btf__type_by_id(types, variable.type);
    if (btf__name_by_offset(types, type->name_off) != name) continue;
    if (variable.offset > data.size() || variable.size > data.size() - variable.offset) return {};
    return data.subspan(variable.offset, variable.size);
  }
  return {};
}

template <class T>
std::vector<T> values_in(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

Result<void> set_hash_key(bpf_object* object, const HashKey& key) {
  const std::span<std::byte> constant = find_constant(object, "profd_hash_key");
  if (constant.size() != sizeof(key)) {
    return fail(ErrorCode::kInternal, "the BPF object has no key of hashes");
  }
  std::memcpy(constant.data(), key.data(), sizeof(key));
  return {};
}

bool set_interpreters(bpf_object* object, bool with_interpreters) {
  const std::uint32_t value = with_interpreters ? 1 : 0;
  const std::span<std::byte> constant = find_constant(object, "profd_with_interpreters");
  if (constant.size() != sizeof(value)) return false;
  std::memcpy(constant.data(), &value, sizeof(value));
  return true;
}

void Programs::Close::operator()(bpf_object* object) const noexcept { bpf_object__close(object); }

std::span<const std::byte> Programs::built_in() {
  std::size_t size = 0;
  const void* bytes = profd_sampler__elf_bytes(&size);
  return {static_cast<const std::byte*>(bytes), size};
}

Result<Programs> Programs::load(std::span<const std::byte> object, std::size_t ring_bytes) {
  libbpf_set_print(discard_log);
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  const auto key = draw_hash_key();
  if (!key) return key.error();
  Programs programs;
  programs.hash_key_ = *key;
  auto loaded = programs.load_object(object, true);
  if (!loaded && programs.has_interpreters_) loaded = programs.load_object(object, false);
  if (!loaded) return loaded.error();
  if (auto made = programs.make_rings(ring_bytes); !made) return made.error();
  const auto outer = programs.map("profd_rings");
  if (!outer) return outer.error();
  programs.grace_periods_ = std::make_unique<GracePeriods>(
      [outer = *outer, ring = programs.rings_.front().get()] { store_ring_again(outer, ring); });
  return programs;
}

Result<void> Programs::load_object(std::span<const std::byte> object, bool with_interpreters) {
  std::vector<char> log(1 << 16);
  bpf_object_open_opts options{};
  options.sz = sizeof(options);
  options.object_name = "profd";
  options.kernel_log_buf = log.data();
  options.kernel_log_size = log.size();
  object_.reset(bpf_object__open_mem(object.data(), object.size(), &options));
  if (!object_) return fail_errno("could not open the BPF object");
  if (auto set = set_hash_key(object_.get(), hash_key_); !set) return set;
  has_interpreters_ = set_interpreters(object_.get(), with_interpreters) && with_interpreters;

  choose_unmap_hooks(object_.get());
  bpf_map* rings = bpf_object__find_map_by_name(object_.get(), "profd_rings");
  const int cpus = libbpf_num_possible_cpus();
  if (rings == nullptr || cpus <= 0) {
    return fail(ErrorCode::kInternal,
                "the BPF object has no map profd_rings, or the CPUs are unknown");
  }
  bpf_map__set_max_entries(rings, static_cast<std::uint32_t>(cpus));
  if (const int code = bpf_object__load(object_.get()); code != 0) {
    return load_error("could not load the BPF programs", code, log);
  }
  return {};
}

Result<void> Programs::make_rings(std::size_t ring_bytes) {
  const auto outer = map("profd_rings");
  if (!outer) return outer.error();
  const int cpus = libbpf_num_possible_cpus();
  for (std::uint32_t cpu = 0; cpu < static_cast<std::uint32_t>(cpus); ++cpu) {
    UniqueFd ring(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "profd_ring", 0, 0,
                                 static_cast<std::uint32_t>(ring_bytes), nullptr));
    if (!ring.valid()) {
      return fail_errno("could not create a ring buffer of " + std::to_string(ring_bytes) +
                        " bytes");
    }
    const int fd = ring.get();
    if (bpf_map_update_elem(*outer, &cpu, &fd, BPF_ANY) != 0) {
      return fail_errno("could not install a ring buffer");
    }
    rings_.push_back(std::move(ring));
  }
  return {};
}

Result<int> Programs::map(const char* name) const {
  const int fd = bpf_object__find_map_fd_by_name(object_.get(), name);
  if (fd < 0) return fail(ErrorCode::kInternal, "the BPF object has no map " + std::string(name));
  return fd;
}

Result<int> Programs::program(const char* name) const {
  const bpf_program* program = bpf_object__find_program_by_name(object_.get(), name);
  if (program == nullptr) {
    return fail(ErrorCode::kInternal, "the BPF object has no program " + std::string(name));
  }
  const int fd = bpf_program__fd(program);
  if (fd < 0) {
    return fail(ErrorCode::kUnsupported, "the kernel cannot run BPF program " + std::string(name));
  }
  return fd;
}

Result<UniqueFd> Programs::attach_tracepoint(const char* name) const {
  const auto fd = program(name);
  if (!fd) return fd.error();
  UniqueFd link(bpf_raw_tracepoint_open(nullptr, *fd));
  if (!link.valid()) return fail_errno("could not attach " + std::string(name));
  return link;
}

Result<std::string> Programs::read(const char* iterator, std::uint32_t only_tgid) const {
  const auto fd = program(iterator);
  if (!fd) return fd.error();
  return read_iterator(*fd, iterator, only_tgid);
}

Result<std::vector<profd_task>> Programs::list_tasks(std::uint32_t only_tgid) const {
  const auto bytes = read("profd_tasks", only_tgid);
  if (!bytes) return bytes.error();
  return values_in<profd_task>(*bytes);
}

Result<std::vector<profd_running_code>> Programs::list_running_code() const {
  const auto bytes = read("profd_running", 0);
  if (!bytes) return bytes.error();
  return values_in<profd_running_code>(*bytes);
}

Result<std::vector<BpfFunction>> Programs::list_bpf_functions() const {
  const auto bytes = read("profd_bpf_functions", 0);
  if (!bytes) return bytes.error();
  std::vector<BpfFunction> functions;
  for (const profd_bpf_function& function : values_in<profd_bpf_function>(*bytes)) {
    functions.push_back({.code = {.start = function.start, .end = function.end},
                         .name = {function.name, ::strnlen(function.name, sizeof function.name)}});
  }
  // Of a function that comes twice, one has no name: the last.
  std::ranges::sort(functions, [](const BpfFunction& a, const BpfFunction& b) {
    return std::tie(a.code, b.name) < std::tie(b.code, a.name);
  });
  const auto are_same = [](const BpfFunction& a, const BpfFunction& b) { return a.code == b.code; };
  functions.erase(std::unique(functions.begin(), functions.end(), are_same), functions.end());
  return functions;
}

}  // namespace profd
