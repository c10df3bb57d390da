#include "collectors/jit/scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/jit/clock.h"
#include "formats/base/text_fields.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/maps.h"

namespace profd {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20;  // of /proc/PID/maps
constexpr std::size_t kMaxMarkers = 16;
// Runtimes map 40, 1024 or 4096 bytes as a marker, which is one page.
constexpr std::uint64_t kMarkerBytes = 4096;
constexpr std::int64_t kSecond = 1'000'000'000;

// The content of a file in /proc, kMaxTextBytes of it at most.
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

// The rest of the line that starts with a label; empty: there is no such line.
std::string_view line_of(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(label)) return line.substr(label.size());
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

std::vector<std::uint32_t> numbers_of(std::string_view line) {
  std::vector<std::uint32_t> numbers;
  TextFields fields(line);
  for (;;) {
    fields.blanks();
    const std::uint64_t number = fields.decimal();
    if (!fields.ok()) return numbers;
    numbers.push_back(static_cast<std::uint32_t>(number));
  }
}

struct Stat {
  std::uint32_t parent = 0;
  std::uint64_t start_ticks = 0;
};

std::optional<Stat> read_stat(int process, const char* name) {
  const std::string stat = read_text(process, name);
  const auto comm_end = stat.rfind(')');  // the comm before it may have any characters
  if (comm_end == std::string::npos) return std::nullopt;
  TextFields fields(std::string_view(stat).substr(comm_end + 1));
  const auto number_after = [&fields](int others) {
    for (; others > 0; --others) {
      fields.blanks();
      fields.word();
    }
    fields.blanks();
    return fields.decimal();
  };
  // The fields 4 and 22 of the line, whose second one is the comm.
  const Stat read{.parent = static_cast<std::uint32_t>(number_after(1)),
                  .start_ticks = number_after(17)};
  return fields.ok() ? std::optional(read) : std::nullopt;
}

// A process whose parent ends gets another one at once. So a parent that is the same before and
// after this read was its parent meanwhile.
std::uint64_t start_of_parent(int process, std::uint32_t parent) {
  const auto theirs = read_stat(AT_FDCWD, ("/proc/" + std::to_string(parent) + "/stat").c_str());
  const auto again = read_stat(process, "stat");
  return theirs && again && again->parent == parent ? theirs->start_ticks : 0;
}

// False where the process has ended, also where another one has its pid.
bool read_facts(int process, const ProcessKey& key, JitProcessFacts& facts) {
  const auto stat = read_stat(process, "stat");
  const std::string status = read_text(process, "status");
  if (!stat || status.empty() || stat->start_ticks != start_ticks(key)) return false;
  facts.parent = stat->parent;
  facts.parent_start_ticks = start_of_parent(process, stat->parent);
  const std::vector<std::uint32_t> uids = numbers_of(line_of(status, "Uid:"));
  const std::vector<std::uint32_t> pids = numbers_of(line_of(status, "NSpid:"));
  if (uids.size() < 2) return false;
  facts.real_uid = uids[0];
  facts.uid = uids[1];
  facts.pid_in_namespace = pids.empty() ? key.tgid : pids.back();
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

// The runtime is recognised here too, since samples that lie only in JIT code never hit its
// library.
std::string_view runtime_of(const MapsLine& line) {
  if (line.permissions.size() < 3 || line.permissions[2] != 'x') return {};
  const Runtime* const runtime = runtime_of_file(line.path);
  return runtime == nullptr ? std::string_view() : runtime->name;
}

class Scanner {
 public:
  // `directory` is the process's in /proc.
  Scanner(const ProcessKey& process, int directory) : process_(process), directory_(directory) {}

  JitScan run();

 private:
  [[nodiscard]] JitFileRules rules(JitFileKind kind) const;
  void add(JitOpening opening);
  void scan_mappings();
  void scan_directory(const char* link, const std::string& path, const std::string& name,
                      JitFileKind kind);

  ProcessKey process_;
  int directory_;
  JitScan scan_;
};

JitFileRules Scanner::rules(JitFileKind kind) const {
  return {.kind = kind,
          .uid = scan_.facts.uid,
          .real_uid = scan_.facts.real_uid,
          .tgid = process_.tgid,
          .not_before_ns = start_time_ns(process_)};
}

void Scanner::add(JitOpening opening) {
  if (opening.refusal) scan_.refusals.push_back(*opening.refusal);
  if (!opening.file) return;
  const bool known = std::ranges::any_of(
      scan_.files, [&opening](const auto& file) { return file->id == opening.file->id; });
  if (!known) scan_.files.push_back(std::move(opening.file));
}

void Scanner::scan_mappings() {
  const std::string maps = read_text(directory_, "maps");
  std::string_view rest = maps;
  std::size_t markers = 0;
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    const auto line = parse_maps_line(text);
    if (!line) continue;
    if (scan_.facts.runtime.empty()) scan_.facts.runtime = runtime_of(*line);
    if (is_shared_code(*line)) scan_.has_shared_code = true;
    if (is_marker(*line) && markers < kMaxMarkers) {
      ++markers;
      std::array<char, 96> link{};
      std::snprintf(link.data(), link.size(), "map_files/%lx-%lx", line->start, line->end);
      JitFileRules mapped = rules(JitFileKind::kJitDump);
      mapped.not_before_ns = 0;  // a forked child has its parent's file mapped
      add(open_mapped_jit_file(directory_, link.data(), line->path, mapped));
    }
  }
}

void Scanner::scan_directory(const char* link, const std::string& path, const std::string& name,
                             JitFileKind kind) {
  const UniqueFd directory = open_directory_of(directory_, link, path);
  if (!directory.valid()) return;
  JitFileRules found = rules(kind);
  found.shown_in = path == "." ? "" : "/" + path + "/";
  add(open_jit_file(directory.get(), name, found));
}

JitScan Scanner::run() {
  if (!read_facts(directory_, process_, scan_.facts)) return {};
  scan_.is_gone = false;
  scan_mappings();
  const std::string pid = std::to_string(scan_.facts.pid_in_namespace);
  scan_directory("root", "tmp", "jit-" + pid + ".dump", JitFileKind::kJitDump);
  scan_directory("cwd", ".", "jit-" + pid + ".dump", JitFileKind::kJitDump);
  scan_directory("root", "tmp", "perf-" + pid + ".map", JitFileKind::kPerfMap);
  return std::move(scan_);
}

}  // namespace

JitScan scan_for_jit_files(const ProcessKey& process) {
  // Everything goes through this descriptor: it stays this process's if the pid is reused.
  const std::string path = "/proc/" + std::to_string(process.tgid);
  const UniqueFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return {};
  return Scanner(process, directory.get()).run();
}

// The kernel rounds down too.
std::uint64_t start_ticks(const ProcessKey& process) {
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return process.start_ns / (kSecond / ticks);
}

// One second early, since file times have the resolution of a tick and the clock may be set.
std::int64_t start_time_ns(const ProcessKey& process) {
  return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) +
         static_cast<std::int64_t>(process.start_ns) - kSecond;
}

bool is_written_since(const JitFile& file, std::int64_t time_ns) {
  struct statx status {};
  return stat_cached(file.fd->get(), STATX_MTIME, status) && ns_of(status.stx_mtime) >= time_ns;
}

bool may_belong_to(const ProcessKey& process, const JitProcessFacts& facts,
                   std::uint32_t sampled_uid, std::uint32_t pid, std::uint32_t owner) {
  const bool is_scanned = facts.pid_in_namespace != 0;
  const bool is_named = pid == process.tgid || (is_scanned && pid == facts.pid_in_namespace);
  return is_named && (owner == 0 || owner == (is_scanned ? facts.uid : sampled_uid));
}

std::optional<NamedJitFile> jit_file_name(std::string_view name) {
  const bool is_map = name.starts_with("perf-");
  if (!is_map && !name.starts_with("jit-")) return std::nullopt;
  TextFields fields(name.substr(name.find('-') + 1));
  std::uint64_t pid = fields.decimal();
  // JavaScriptCore writes the thread's id before the pid.
  const bool has_tid = !is_map && fields.rest().starts_with('-');
  if (has_tid) {
    fields.expect('-');
    pid = fields.decimal();
  }
  const std::string_view rest = fields.rest();
  const bool is_dump = rest.empty() || rest == ".dump" || (has_tid && rest.starts_with('-'));
  const bool is_known = is_map ? rest == ".map" : is_dump;
  if (!fields.ok() || !is_known || pid > UINT32_MAX) return std::nullopt;
  return NamedJitFile{.kind = is_map ? JitFileKind::kPerfMap : JitFileKind::kJitDump,
                      .pid = static_cast<std::uint32_t>(pid)};
}

}  // namespace profd
