#include "daemon/profiles/profile_files.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "collectors/bpf/sample.h"
#include "collectors/host/host_checks.h"
#include "daemon/profiles/block_counts.h"
#include "daemon/profiles/block_image.h"
#include "daemon/profiles/jit_images.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/profiles/microseconds.h"
#include "daemon/profiles/object_images.h"
#include "daemon/profiles/pprof_builder.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/safe_name.h"
#include "formats/base/gzip.h"
#include "formats/base/time_text.h"
#include "formats/base/whole_file.h"
#include "formats/proc/kallsyms.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/gperftools_writer.h"
#include "formats/profile/pprof_writer.h"
#include "formats/profile/times_file.h"

namespace profd {
namespace {

constexpr std::uint64_t kMicrosecondsPerSecond = 1'000'000;
constexpr std::uint64_t kNanosecondsPerMicrosecond = 1000;
constexpr std::size_t kCommBytes = 64;

// A part goes to a client of this host, which reads it at once: 6 takes 2.5 times the time.
constexpr int kPartGzipLevel = 1;

std::uint64_t rounded_quotient(std::uint64_t dividend, std::uint64_t divisor) {
  return divisor == 0 ? 0 : (dividend + divisor / 2) / divisor;
}

KernelImage make_kernel_image(const SessionSnapshot& snapshot, const std::string& release,
                              WaitFrames* waits) {
  if (snapshot.hide_kernel) return KernelImage::hidden();
  const std::set<std::uint64_t> addresses = kernel_addresses(snapshot, waits);
  if (addresses.empty()) return KernelImage::hidden();
  Result<std::string> text = read_whole_file("/proc/kallsyms");
  if (!text) return KernelImage::hidden();
  const Result<KernelSymbols> symbols = KernelSymbols::parse(std::move(*text));
  return symbols ? KernelImage::named(*symbols, snapshot.bpf_functions, release, addresses)
                 : KernelImage::hidden();
}

bool has_block_frames(const SessionSnapshot& snapshot) {
  const auto is_not_taken = [](const StackTable::Stack& stack) {
    return !was_taken(stack.user_end);
  };
  return snapshot.event.kind == EventKind::kWall ||
         std::ranges::any_of(snapshot.processes, [&](const ProcessSnapshot& process) {
           return std::ranges::any_of(process.samples.stacks.stacks(), is_not_taken);
         });
}

Result<void> write_images(const SessionSnapshot& snapshot, const KernelImage& kernel,
                          const ObjectImages& objects, SymbolBudgets& symbols, NameCache& names,
                          ResultWriter& result) {
  if (has_kernel_frames(snapshot)) {
    auto added = result.add(path_in_result(kernel.line_path()), kernel.encode());
    if (!added) return added;
  }
  if (has_block_frames(snapshot)) {
    auto added = result.add(path_in_result(block_image_mapping().path), encode_block_image());
    if (!added) return added;
  }
  return objects.write(result, max_images_bytes(!snapshot.hide_kernel), symbols, names);
}

NamedProfile name_frames(const SessionSnapshot& snapshot, LineBudget& lines, CodeNaming& naming) {
  SymbolBudgets budgets;
  const UserNames users = read_user_names();
  PodDirectory pods;
  return build_named_profile(snapshot,
                             {.files = naming.files(),
                              .kernel = naming.kernel(),
                              .budgets = budgets,
                              .users = users,
                              .line_budget = &lines,
                              .pods = &pods},
                             host_name());
}

// Of an event that has_blocks(), microseconds.
std::uint64_t count_samples(const PprofProfile& profile, const EventSpec& event) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const auto values = profile.values(i);
    sum += static_cast<std::uint64_t>(event.has_blocks() ? values.back() : values.front());
  }
  return event.has_blocks() ? sum / kNanosecondsPerMicrosecond : sum;
}

// Of the records of all profiles, one after the other.
Result<void> write_times(const SessionSnapshot& snapshot, SampleTimes times, ResultWriter& result) {
  normalize(times);
  if (times.entries.empty()) return {};
  const std::chrono::nanoseconds start = snapshot.started.time_since_epoch();
  return result.add(kTimesFile, encode_times_file({start.count(), std::move(times)}));
}

// Returns how well its samples are named. After it, the cache has their names.
Result<NameShares> write_named_profile(const SessionSnapshot& snapshot,
                                       const SessionSummary& summary, CodeNaming& naming,
                                       ResultWriter& result) {
  LineBudget lines = LineBudget::of_session();
  NamedProfile named = name_frames(snapshot, lines, naming);
  named.profile.own_data = to_json(summary);
  auto added = result.add(kNamedProfile, encode_pprof_gzip(named.profile));
  if (!added) return added.error();
  return named.shares;
}

}  // namespace

SessionLedger ledger_of(const SessionSnapshot& snapshot,
                        const std::vector<ProfileSummary>& profiles) {
  if (snapshot.event.has_blocks()) return ledger_of_blocks(snapshot, profiles);
  SessionLedger ledger;
  ledger.taken = snapshot.ledger.taken;
  for (const ProfileSummary& profile : profiles) ledger.written += profile.samples;
  LossCounts lost = snapshot.ledger.lost;
  lost[static_cast<std::size_t>(Loss::kMemoryLimit)] += snapshot.refused;
  for (std::size_t reason = 0; reason < kLossCount; ++reason) {
    if (lost[reason] == 0) continue;
    ledger.lost.emplace(loss_name(static_cast<Loss>(reason)), lost[reason]);
  }
  return ledger;
}

SessionSummary summarize(const SessionSnapshot& snapshot) {
  SessionSummary summary;
  summary.session = snapshot.session;
  summary.started = utc_text(snapshot.started);
  summary.seconds = std::chrono::duration<double>(snapshot.lasted).count();
  summary.event = snapshot.event.name;
  summary.period_us = period_of(snapshot);
  summary.period_unit = snapshot.event.unit;
  if (snapshot.ledger.blocks) summary.blocks = summary_of(*snapshot.ledger.blocks);
  return summary;
}

std::uint64_t period_of(const SessionSnapshot& snapshot) {
  const EventSpec& event = snapshot.event;
  if (event.has_blocks()) return 1;
  std::uint64_t period = 0;
  if (event.is_time && event.frequency_hz != 0) {
    period = rounded_quotient(kMicrosecondsPerSecond, event.frequency_hz);
  } else if (event.is_time) {
    period = rounded_quotient(event.period, kNanosecondsPerMicrosecond);
  } else if (event.period != 0) {
    period = event.period;
  } else {
    period = rounded_quotient(snapshot.period_sum, snapshot.samples);
  }
  return std::max<std::uint64_t>(period, 1);
}

std::string profile_path(const ProfileSummary& summary, std::set<std::string>& taken,
                         const std::string& kind) {
  const std::string stem =
      safe_file_name(summary.comm, kCommBytes) + "." + std::to_string(summary.pid);
  const std::string end = kind.empty() ? ".prof" : "." + kind + ".prof";
  std::string path = stem + end;
  for (int number = 2; !taken.insert(path).second; ++number) {
    path = std::string(stem).append(".").append(std::to_string(number)).append(end);
  }
  return path;
}

Result<std::uint64_t> write_encoded_profile(const std::string& path, std::string_view bytes,
                                            ResultWriter& result) {
  if (Result<void> added = result.add(path, bytes); !added) return added.error();
  const Result<std::string> on_disk = result.read_back(path);
  if (!on_disk) return on_disk.error();
  return count_gperftools_samples(*on_disk);
}

Result<ProfileSummary> write_profile(const Profile& profile, ProfileSummary summary,
                                     std::set<std::string>& taken, ResultWriter& result,
                                     const std::string& kind) {
  summary.path = profile_path(summary, taken, kind);
  const Result<std::uint64_t> samples =
      write_encoded_profile(summary.path, encode_gperftools(profile), result);
  if (!samples) return samples.error();
  summary.samples = *samples;
  return summary;
}

std::set<std::uint64_t> kernel_addresses(const SessionSnapshot& snapshot, WaitFrames* waits) {
  std::set<std::uint64_t> addresses;
  for (const ProcessSnapshot& process : snapshot.processes) {
    const StackTable& table = process.samples.stacks;
    for (const StackTable::Stack& stack : table.stacks()) {
      auto frames = table.kernel_frames(stack);
      const bool is_cut = waits != nullptr && is_of_blocks(stack);
      if (is_cut) frames = waits->behind_scheduler(frames);
      if (frames.empty()) continue;
      addresses.insert(frames.front() - (is_cut ? 1U : 0U));
      for (const std::uint64_t return_address : frames.subspan(1)) {
        addresses.insert(return_address - 1);
      }
    }
  }
  return addresses;
}

bool has_kernel_frames(const SessionSnapshot& snapshot) {
  return std::ranges::any_of(snapshot.processes, [](const ProcessSnapshot& process) {
    return std::ranges::any_of(process.samples.stacks.stacks(), [](const StackTable::Stack& stack) {
      return stack.kernel_frames != 0;
    });
  });
}

Result<SessionSummary> write_profiles(const SessionSnapshot& snapshot, const SharedObjects& shared,
                                      ResultWriter& result) {
  SessionSummary summary = summarize(snapshot);
  std::set<std::string> taken;
  SampleTimes times{.until = snapshot.times_until.value_or(0)};
  std::uint32_t records = 0;
  for (const ProcessSnapshot& process : snapshot.processes) {
    BuiltProfile built = build_profile(process, summary.period_us, shared);
    Result<ProfileSummary> profile =
        write_profile(built.profile, std::move(built.summary), taken, result);
    if (!profile) return profile.error();
    for (SampleTime time : built.times) {
      time.sample += records;
      times.entries.push_back(time);
    }
    records += static_cast<std::uint32_t>(profile->stacks);
    summary.profiles.push_back(std::move(*profile));
    if (!built.jit) continue;
    Result<void> written = shared.jit->write(built.jit->line_path, built.jit->part);
    if (!written) return written.error();
  }
  if (auto written = write_times(snapshot, std::move(times), result); !written)
    return written.error();
  summary.ledger = ledger_of(snapshot, summary.profiles);
  return summary;
}

Result<SessionSummary> write_session(const SessionSnapshot& snapshot, CodeNaming& naming,
                                     ResultWriter& result) {
  NamingEnd end(naming);
  Parser& parser = naming.parser();
  const std::string release = kernel_release();
  ObjectImages objects(parser, release, &snapshot.interpreters);
  std::optional<WaitFrames> waits;
  const bool has_blocks = snapshot.event.has_blocks();
  if (has_blocks) waits.emplace(WaitFrames::by(naming.kernel(), snapshot.bpf_functions));
  WaitFrames* const cut = waits ? &*waits : nullptr;
  const KernelImage kernel = make_kernel_image(snapshot, release, cut);
  EntryFunctions entries(parser);
  SymbolBudgets symbols;
  JitImages jit(parser, max_images_bytes(!snapshot.hide_kernel), result);
  Microseconds microseconds;
  Result<SessionSummary> summary =
      write_profiles(snapshot,
                     {.objects = objects,
                      .kernel = kernel,
                      .entries = entries,
                      .symbols = symbols,
                      .jit = &jit,
                      .microseconds = has_blocks ? &microseconds : nullptr,
                      .waits = cut,
                      .has_roots = snapshot.event.kind == EventKind::kWall},
                     result);
  if (!summary) return summary;
  const Result<NameShares> named = write_named_profile(snapshot, *summary, naming, result);
  if (!named) return named.error();
  end.set_shares(*named);
  const Result<void> images =
      write_images(snapshot, kernel, objects, symbols, naming.cache(), result);
  if (!images) return images.error();
  return summary;
}

Result<std::string> PartEncoder::encode(const SessionSnapshot& part, CodeNaming& naming) {
  NamingEnd end(naming);
  lines_.refill(part.lasted);
  NamedProfile named = name_frames(part, lines_, naming);
  end.set_shares(named.shares);
  SessionSummary summary = summarize(part);
  summary.ledger = ledger_of(part, {});
  summary.ledger.written = count_samples(named.profile, part.event);
  named.profile.own_data = to_json(summary);
  return pack_gzip(encode_pprof(named.profile), kPartGzipLevel);
}

}  // namespace profd
