#include "collectors/jit/scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "collectors/host/clock.h"
#include "formats/base/read_file.h"
#include "formats/base/text_fields.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/maps.h"
#include "formats/proc/stat.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20;  // of /proc/PID/maps
constexpr std::size_t kMaxMarkers = 16;
constexpr std::size_t kMaxShared = 16;
// A marker is a page or less: 40 bytes, 1024 or 4096, as runtimes ask for it.
constexpr std::uint64_t kMarkerBytes = 4096;
constexpr std::int64_t kSecond = 1'000'000'000;

// A process whose parent has ended has another one at once: who is its parent before and after is
// its parent meanwhile.
std::uint64_t start_of_parent(int process, std::uint32_t parent) {
  const auto theirs = read_process_stat("/proc/" + std::to_string(parent) + "/stat");
  const auto again = read_process_stat("stat", process);
  return theirs && again && again->parent_pid == parent ? theirs->start_ticks : 0;
}

// False where the process is another one.
bool read_facts(int process, const ProcessKey& key, JitProcessFacts& facts) {
  const auto stat = read_process_stat("stat", process);
  const auto status = read_process_status("status", process);
  if (!stat || !status || stat->start_ticks != start_ticks(key)) return false;
  facts.parent = stat->parent_pid;
  facts.parent_start_ticks = start_of_parent(process, stat->parent_pid);
  facts.real_uid = status->real_uid();
  facts.uid = status->effective_uid();
  facts.pid_in_space = status->namespace_pid;
  return true;
}

bool is_marker(const MapsLine& line) {
  if (line.inode == 0 || line.file_offset != 0 || line.end - line.start > kMarkerBytes ||
      line.permissions.size() < 4 || line.permissions[3] != 'p' || line.permissions[1] == 'w') {
    return false;
  }
  if (line.permissions[2] == 'x') return true;
  return jit_file_name(line.path.substr(line.path.rfind('/') + 1)).has_value();
}

bool is_shared_code(const MapsLine& line) {
  return line.permissions.size() >= 4 && line.permissions[3] == 's' && line.permissions[2] == 'x';
}

// Samples name the libraries that they hit; those in made code alone may never hit the runtime's.
std::string_view runtime_of(const MapsLine& line) {
  if (line.permissions.size() < 3 || line.permissions[2] != 'x') return {};
  const Runtime* const runtime = runtime_of_file(line.path);
  return runtime == nullptr ? std::string_view() : runtime->name;
}

class Look {
 public:
  Look(const ProcessKey& process, int directory) : process_(process), directory_(directory) {}

  JitScan run();

 private:
  [[nodiscard]] JitFileRules rules(JitFileKind kind) const;
  void add(JitOpening opening);
  void look_at_mappings();
  void look_in(const char* link, const std::string& path, const std::string& name,
               JitFileKind kind);

  ProcessKey process_;
  int directory_;
  JitScan look_;
};

JitFileRules Look::rules(JitFileKind kind) const {
  return {.kind = kind,
          .uid = look_.facts.uid,
          .payer = look_.facts.real_uid,
          .tgid = process_.tgid,
          .not_before_ns = start_time_ns(process_)};
}

void Look::add(JitOpening opening) {
  if (opening.refusal) look_.refusals.push_back(*opening.refusal);
  if (!opening.file) return;
  const bool known = std::ranges::any_of(
      look_.files, [&opening](const auto& file) { return file->id == opening.file->id; });
  if (!known) look_.files.push_back(std::move(opening.file));
}

void Look::look_at_mappings() {
  const auto maps = read_whole_file("maps", directory_, kMaxTextBytes);
  if (!maps) return;
  std::string_view rest = *maps;
  std::size_t markers = 0;
  while (!rest.empty()) {
    const auto line = parse_maps_line(take_line(rest));
    if (!line) continue;
    if (look_.facts.runtime.empty()) look_.facts.runtime = runtime_of(*line);
    if (is_shared_code(*line) && look_.shared.size() < kMaxShared) {
      look_.shared.push_back({.start = line->start, .end = line->end});
    } else if (is_marker(*line) && markers < kMaxMarkers) {
      ++markers;
      std::array<char, 96> link{};
      std::snprintf(link.data(), link.size(), "map_files/%lx-%lx", line->start, line->end);
      JitFileRules mapped = rules(JitFileKind::kJitDump);
      mapped.not_before_ns = 0;  // a forked child has its parent's mapped
      add(open_mapped_jit_file(directory_, link.data(), line->path, mapped));
    }
  }
}

void Look::look_in(const char* link, const std::string& path, const std::string& name,
                   JitFileKind kind) {
  const UniqueFd directory = open_directory_of(directory_, link, path);
  if (!directory.valid()) return;
  JitFileRules found = rules(kind);
  found.shown_in = path == "." ? "" : "/" + path + "/";
  add(open_jit_file(directory.get(), name, found));
}

JitScan Look::run() {
  if (!read_facts(directory_, process_, look_.facts)) return {};
  look_.is_gone = false;
  look_at_mappings();
  const std::string pid = std::to_string(look_.facts.pid_in_space);
  look_in("root", "tmp", "jit-" + pid + ".dump", JitFileKind::kJitDump);
  look_in("cwd", ".", "jit-" + pid + ".dump", JitFileKind::kJitDump);
  look_in("root", "tmp", "perf-" + pid + ".map", JitFileKind::kPerfMap);
  return std::move(look_);
}

}  // namespace

JitScan look_for_jit_files(const ProcessKey& process) {
  // All goes through this descriptor, which is this process's even where its pid is another's.
  const std::string path = "/proc/" + std::to_string(process.tgid);
  const UniqueFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return {};
  return Look(process, directory.get()).run();
}

// The kernel rounds it down.
std::uint64_t start_ticks(const ProcessKey& process) {
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return process.start_ns / (kSecond / ticks);
}

// A second early: file times are the tick's, and the clock may be set.
std::int64_t start_time_ns(const ProcessKey& process) {
  return now_ns(CLOCK_REALTIME) - now_ns(CLOCK_BOOTTIME) +
         static_cast<std::int64_t>(process.start_ns) - kSecond;
}

bool is_written_since(const JitFile& file, std::int64_t time_ns) {
  struct statx status {};
  return ::statx(file.fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MTIME, &status) ==
             0 &&
         nanoseconds_of(status.stx_mtime) >= time_ns;
}

std::optional<NamedJitFile> jit_file_name(std::string_view name) {
  constexpr std::string_view kDump = "jit-";
  constexpr std::string_view kMap = "perf-";
  const bool is_map = name.starts_with(kMap) && name.ends_with(".map");
  if (!is_map && !name.starts_with(kDump)) return std::nullopt;
  std::string_view rest = name.substr(is_map ? kMap.size() : kDump.size());
  std::uint32_t pid = 0;
  const auto read_number = [&rest, &pid] {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), pid);
    if (error != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  };
  if (!read_number()) return std::nullopt;
  if (is_map) {
    if (rest != ".map") return std::nullopt;
    return NamedJitFile{.kind = JitFileKind::kPerfMap, .pid = pid};
  }
  // JavaScriptCore: the thread's id first.
  if (rest.starts_with('-')) {
    rest.remove_prefix(1);
    if (!read_number()) return std::nullopt;
    if (rest.starts_with('-')) rest = {};
  }
  if (!rest.empty() && rest != ".dump") return std::nullopt;
  return NamedJitFile{.kind = JitFileKind::kJitDump, .pid = pid};
}

}  // namespace profd
