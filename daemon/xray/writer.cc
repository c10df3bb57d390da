#include "daemon/xray/writer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "collectors/host/host_checks.h"
#include "collectors/sandbox/packets.h"
#include "daemon/profiles/object_images.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_store.h"
#include "daemon/xray/named_calls.h"
#include "formats/base/time_text.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxResultBytes = std::uint64_t{128} << 20;
constexpr std::string_view kUnknownImage = "objects/xray-unknown-functions.so";

Result<xray::LiveResult> read_result(const UniqueFd& memory) {
  const auto bytes = sandbox::read_sealed(memory.get(), kMaxResultBytes);
  if (!bytes) return bytes.error();
  return xray::decode_live_result(*bytes);
}

ProcessMapping mapping_of(const XrayTarget& target) {
  ProcessMapping mapping;
  mapping.kind = PROFD_MAPPING_FILE;
  if (!target.program) return mapping;  // then no frame lies in it
  mapping.file_key = target.program->key;
  mapping.file = target.program;
  return mapping;
}

// Adds the functions of the profile to the program's image. As Profile::add_stack() has it, the
// addresses of callers are one higher.
void add_hits(const Profile& profile, ProfiledObject& object) {
  for (const Profile::Record& record : profile.records()) {
    const auto pcs = profile.pcs(record);
    for (std::size_t i = 0; i < pcs.size(); ++i) {
      const std::uint64_t address = i == 0 ? pcs[i] : pcs[i] - 1;
      for (const ProfileMapping& mapping : profile.mappings) {
        if (mapping.path != xray::kProgramPath) continue;
        if (address < mapping.start || address >= mapping.end) continue;
        object.hit(address - mapping.start + mapping.file_offset);
      }
    }
  }
}

void name_mappings(const std::string& program, Profile& profile) {
  for (ProfileMapping& mapping : profile.mappings) {
    mapping.path = mapping.path == xray::kProgramPath
                       ? program
                       : std::string(kBuildPrefix) + std::string(kUnknownImage);
    if (mapping.path.starts_with(kBuildPrefix)) profile.build_dir.assign(1, '.');
  }
}

ProfileSummary summary_of(const XrayTarget& target, const Profile& profile, std::string comm) {
  ProfileSummary summary;
  summary.pid = static_cast<std::uint32_t>(target.pid);
  summary.start_time_ns = target.start_time_ns;
  summary.comm = std::move(comm);
  summary.stacks = profile.records().size();
  summary.unit = target.unit;
  summary.container = target.container;
  return summary;
}

CountsByReason report_of(const xray::LiveResult& result) {
  const xray::Report& report = result.report;
  CountsByReason counts = {{"functions", result.functions}, {"patched", result.patched},
                           {"records", report.records},     {"entries", report.entries},
                           {"exits", report.exits},         {"tail_exits", report.tail_exits},
                           {"arguments", report.arguments}, {"buffers", report.buffers},
                           {"threads", report.threads}};
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    if (report[issue] != 0) counts.emplace(xray::issue_name(issue), report[issue]);
  }
  return counts;
}

// Counts records of calls, since the samples of each profile have a unit of their own. The app's
// count of lost records is capped, so that no sum can overflow.
SessionLedger ledger_of(const xray::Report& report) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  SessionLedger ledger;
  const std::uint64_t lost = std::min(report[xray::Issue::kLostRecords], kMost);
  const std::uint64_t refused = std::min(report[xray::Issue::kTooManyThreads], kMost);
  ledger.taken = report.records + lost + refused;
  ledger.written = report.records;
  if (lost != 0) ledger.lost.emplace(xray::issue_name(xray::Issue::kLostRecords), lost);
  if (refused != 0) ledger.lost.emplace(xray::issue_name(xray::Issue::kTooManyThreads), refused);
  return ledger;
}

SessionSummary summarize(const XrayMeasurement& measurement, const xray::LiveResult& live) {
  SessionSummary summary;
  summary.session = measurement.session;
  summary.started = utc_text(measurement.started);
  summary.seconds = std::chrono::duration<double>(measurement.lasted).count();
  summary.event = "xray";
  summary.period_us = 1;
  summary.ledger = ledger_of(live.report);
  summary.xray = report_of(live);
  if (measurement.end != xray::DetachReason::kAsAsked) {
    summary.xray->emplace(xray::name_of(measurement.end), 1);
  }
  return summary;
}

}  // namespace

Result<SessionSummary> write_xray(const XrayMeasurement& measurement, CodeNaming& naming,
                                  ResultWriter& writer) {
  auto live = read_result(measurement.result);
  if (!live) return live.error();
  const XrayTarget& target = measurement.target;
  PprofProfile named = make_named_calls(measurement, *live, naming);
  naming.files().trim();
  ObjectImages objects(naming.parser(), kernel_release());
  // The session started only because the user of the app may read the program.
  const ProcessMapping mapping = mapping_of(target);
  const std::uint32_t reader = mapping.file ? mapping.file->owner : 0;
  ProfiledObject& program = objects.find_or_add(mapping, true, reader);
  SessionSummary summary = summarize(measurement, *live);
  std::set<std::string> taken_paths;
  for (auto [profile, kind] :
       {std::pair(&live->exclusive, "xray"), std::pair(&live->calls, "xray-calls")}) {
    add_hits(*profile, program);
    name_mappings(program.line_path(), *profile);
    auto written = write_profile(*profile, summary_of(target, *profile, target.comm), taken_paths,
                                 writer, kind);
    if (!written) return written.error();
    written->user_samples = written->complete_samples = written->samples;
    summary.profiles.push_back(std::move(*written));
  }
  if (!live->unknown_image.empty()) {
    auto added = writer.add(std::string(kUnknownImage), live->unknown_image);
    if (!added) return added.error();
  }
  SymbolBudgets symbols;
  auto written =
      objects.write(writer, max_images_bytes(measurement.privileged), symbols, naming.cache());
  if (!written) return written.error();
  named.own_data = to_json(summary);
  written = writer.add(kNamedProfile, encode_pprof_gzip(named));
  if (!written) return written.error();
  return summary;
}

}  // namespace profd
