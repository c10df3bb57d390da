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

#include "formats/jit/runtimes.h"
#include "formats/proc/maps.h"

namespace profd {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20;  // of /proc/PID/maps
constexpr std::size_t kMaxMarkers = 16;
constexpr std::size_t kMaxShared = 16;
// A marker is a page or less: 40 bytes, 1024 or 4096, as runtimes ask for it.
constexpr std::uint64_t kMarkerBytes = 4096;
constexpr std::int64_t kSecond = 1'000'000'000;

// The whole of a file of /proc, up to a end.
std::string read_text(int directory, const char* name) {
  const UniqueFd fd(::openat(directory, name, O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 65536> buffer;
  while (fd.valid() && text.size() < kMaxTextBytes) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

template <class Number>
Number number_of(std::string_view text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The n-th (from 0) field, by blanks; empty: there are fewer.
std::string_view field_of(std::string_view line, std::size_t n) {
  constexpr std::string_view kBlank = " \t";
  for (;; --n) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    const std::string_view field = line.substr(0, line.find_first_of(kBlank));
    if (n == 0 || field.empty()) return field;
    line.remove_prefix(field.size());
  }
}

// What follows a label at the beginning of a line; empty: there is no such line.
std::string_view line_of(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(label)) return line.substr(label.size());
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

std::string_view last_field(std::string_view line) {
  const auto end = line.find_last_not_of(" \t");
  if (end == std::string_view::npos) return {};
  line = line.substr(0, end + 1);
  return line.substr(line.find_last_of(" \t") + 1);
}

std::int64_t now_by(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

struct Stat {
  std::uint32_t parent = 0;
  std::uint64_t start_ticks = 0;
};

std::optional<Stat> read_stat(int process, const char* name) {
  const std::string stat = read_text(process, name);
  const auto comm_end = stat.rfind(')');  // a comm may hold anything, this too
  if (comm_end == std::string::npos) return std::nullopt;
  const std::string_view fields = std::string_view(stat).substr(comm_end + 1);
  // Fields 4 and 22 of all, of which two are before these.
  return Stat{.parent = number_of<std::uint32_t>(field_of(fields, 1)),
              .start_ticks = number_of<std::uint64_t>(field_of(fields, 19))};
}

// A process whose parent has ended has another one at once: who is its parent before and after is
// its parent meanwhile.
std::uint64_t start_of_parent(int process, std::uint32_t parent) {
  const auto theirs = read_stat(AT_FDCWD, ("/proc/" + std::to_string(parent) + "/stat").c_str());
  const auto again = read_stat(process, "stat");
  return theirs && again && again->parent == parent ? theirs->start_ticks : 0;
}

// False where the process is another one.
bool read_facts(int process, const ProcessKey& key, JitProcessFacts& facts) {
  const auto stat = read_stat(process, "stat");
  const std::string status = read_text(process, "status");
  if (!stat || status.empty() || stat->start_ticks != start_ticks(key)) return false;
  facts.parent = stat->parent;
  facts.parent_start_ticks = start_of_parent(process, stat->parent);
  facts.real_uid = number_of<std::uint32_t>(field_of(line_of(status, "Uid:"), 0));
  facts.uid = number_of<std::uint32_t>(field_of(line_of(status, "Uid:"), 1));
  facts.pid_in_space = number_of<std::uint32_t>(last_field(line_of(status, "NSpid:")));
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
  const std::string maps = read_text(directory_, "maps");
  std::string_view rest = maps;
  std::size_t markers = 0;
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    const auto line = parse_maps_line(text);
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
  return now_by(CLOCK_REALTIME) - now_by(CLOCK_BOOTTIME) +
         static_cast<std::int64_t>(process.start_ns) - kSecond;
}

bool is_written_since(const JitFile& file, std::int64_t time_ns) {
  struct statx status {};
  return ::statx(file.fd.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MTIME, &status) ==
             0 &&
         status.stx_mtime.tv_sec * kSecond + status.stx_mtime.tv_nsec >= time_ns;
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
