#include "collectors/jit/scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "collectors/host/clock.h"
#include "formats/base/text_fields.h"
#include "formats/base/whole_file.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/maps.h"
#include "formats/proc/stat.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{8} << 20;  // of /proc/PID/maps
constexpr std::size_t kMaxMarkers = 16;
constexpr std::int64_t kSecond = 1'000'000'000;

// A process whose parent ends gets another one at once. So a parent that is the same before and
// after this read was its parent meanwhile.
std::uint64_t start_of_parent(int process, std::uint32_t parent) {
  const auto theirs = read_process_stat("/proc/" + std::to_string(parent) + "/stat");
  const auto again = read_process_stat("stat", process);
  return theirs && again && again->parent_pid == parent ? theirs->start_ticks : 0;
}

// False where the process has ended, also where another one has its pid.
bool read_facts(int process, const ProcessKey& key, JitProcessFacts& facts) {
  const auto stat = read_process_stat("stat", process);
  const auto status = read_process_status("status", process);
  if (!stat || !status || stat->start_ticks != start_ticks(key)) return false;
  facts.parent = stat->parent_pid;
  facts.parent_start_ticks = start_of_parent(process, stat->parent_pid);
  facts.real_uid = status->real_uid();
  facts.uid = status->effective_uid();
  facts.pid_in_namespace = status->namespace_pid;
  return true;
}

bool is_marker(const MapsLine& line) {
  if (line.inode == 0 || line.file_offset != 0 || line.end - line.start > kMaxMarkerBytes ||
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
  const auto maps = read_whole_file("maps", directory_, kMaxTextBytes);
  if (!maps) return;
  std::string_view rest = *maps;
  std::size_t markers = 0;
  while (!rest.empty()) {
    const auto line = parse_maps_line(take_line(rest));
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
  const JitDirectory directory = open_directory_of(directory_, process_.tgid, link, path);
  if (directory.refusal) scan_.refusals.push_back(*directory.refusal);
  if (!directory.fd.valid()) return;
  JitFileRules found = rules(kind);
  found.shown_in = path == "." ? "" : "/" + path + "/";
  add(open_jit_file(directory.fd.get(), name, found));
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
  return now_ns(CLOCK_REALTIME) - now_ns(CLOCK_BOOTTIME) +
         static_cast<std::int64_t>(process.start_ns) - kSecond;
}

bool is_written_since(const JitFile& file, std::int64_t time_ns) {
  struct statx status {};
  return stat_cached(file.fd->get(), STATX_MTIME, status) &&
         nanoseconds_of(status.stx_mtime) >= time_ns;
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
