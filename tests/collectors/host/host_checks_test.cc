#include "collectors/host/host_checks.h"

#include <errno.h>
#include <linux/capability.h>

#include <utility>

#include <gmock/gmock.h>

namespace profd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::uint64_t bit(unsigned capability) { return std::uint64_t{1} << capability; }

HostFacts good_host() {
  return {.kernel_release = "6.1.0-40-amd64",
          .has_btf = true,
          .is_root = false,
          .capabilities = bit(CAP_BPF) | bit(CAP_PERFMON) | bit(CAP_SYS_PTRACE) |
                          bit(CAP_CHECKPOINT_RESTORE) | bit(CAP_DAC_READ_SEARCH) | bit(CAP_SYSLOG),
          .lockdown = "integrity"};
}

TEST(HostChecks, PassesAHostThatHasEverything) {
  EXPECT_THAT(missing_features(good_host()), IsEmpty());
}

TEST(HostChecks, PassesTheHostThatRunsThisTest) {
  EXPECT_THAT(missing_features(read_host_facts()), IsEmpty());
}

TEST(HostChecks, SaysInOneLineWhatIsMissingAndWhatToDo) {
  struct Case {
    void (*change)(HostFacts&);
    const char* message;
    const char* hint;
  };
  const Case cases[] = {
      {[](HostFacts& f) { f.kernel_release = "5.15.0-91-generic"; }, "older than 6.1",
       "6.1 or later"},
      {[](HostFacts& f) { f.kernel_release = "6.0.19"; }, "older than 6.1", "6.1 or later"},
      {[](HostFacts& f) { f.kernel_release = "nonsense"; }, "older than 6.1", "6.1 or later"},
      {[](HostFacts& f) { f.has_btf = false; }, "no BTF", "CONFIG_DEBUG_INFO_BTF"},
      {[](HostFacts& f) { f.capabilities = 0; }, "not root, and no CAP_BPF+CAP_PERFMON", "as root"},
      {[](HostFacts& f) { f.is_root = true, f.capabilities &= ~bit(CAP_BPF); },
       "root without CAP_BPF", "container"},
      {[](HostFacts& f) { f.lockdown = "confidentiality"; }, "lockdown", "lockdown=integrity"},
      {[](HostFacts& f) { f.bpf_error = EPERM; }, "could not create a BPF map",
       "SystemCallFilter="},
      {[](HostFacts& f) { f.perf_event_error = EPERM; }, "perf events", "SystemCallFilter="},
      {[](HostFacts& f) { f.openat2_error = ENOSYS; }, "openat2", "RestrictSUIDSGID="},
      {[](HostFacts& f) { f.map_files_error = EPERM; }, "map_files", "CAP_CHECKPOINT_RESTORE"},
  };
  for (const Case& c : cases) {
    HostFacts facts = good_host();
    c.change(facts);
    const std::vector<Error> missing = missing_features(facts);
    ASSERT_THAT(missing, SizeIs(1)) << c.message;
    EXPECT_EQ(missing[0].code, ErrorCode::kUnsupported);
    EXPECT_THAT(missing[0].message, HasSubstr(c.message));
    EXPECT_THAT(missing[0].hint, HasSubstr(c.hint));
    EXPECT_EQ(missing[0].message.find('\n'), std::string::npos);
  }
}

TEST(HostChecks, IsNotFatalWhereOnlyNamesAreMissing) {
  struct Case {
    void (*change)(HostFacts&);
    const char* name;
    CheckState state;
    const char* hint;
  };
  const Case cases[] = {
      {[](HostFacts& f) { f.kallsyms_error = EACCES; }, "kallsyms", CheckState::kFix,
       "ProtectKernelTunables="},
      {[](HostFacts& f) { f.kallsyms_error = ENODATA; }, "kallsyms", CheckState::kFix,
       "ProtectKernelLogs="},
      {[](HostFacts& f) { f.kallsyms_error = ENODATA, f.kptr_restrict = 2; }, "kallsyms",
       CheckState::kFix, "kptr_restrict=1"},
      {[](HostFacts& f) { f.other_maps_error = EACCES; }, "other_processes", CheckState::kFix,
       "CAP_SYS_PTRACE"},
      {[](HostFacts& f) { f.has_host_pids = false; }, "pid_namespace", CheckState::kFix,
       "--pid=host"},
      {[](HostFacts& f) { f.cycles_error = ENOENT; }, "pmu", CheckState::kNote, ""},
  };
  for (const Case& c : cases) {
    HostFacts facts = good_host();
    c.change(facts);
    EXPECT_THAT(missing_features(facts), IsEmpty());
    CheckReport report = check_host(facts);
    std::erase_if(report, [](const CheckPoint& point) { return point.state == CheckState::kOk; });
    ASSERT_THAT(report, SizeIs(1)) << c.name;
    EXPECT_EQ(report[0].name, c.name);
    EXPECT_EQ(report[0].state, c.state);
    EXPECT_THAT(report[0].hint, HasSubstr(c.hint));
  }
}

TEST(HostChecks, NotesTheLackOfHardwareCountersInPlainText) {
  const std::pair<int, const char*> table[] = {{ENOENT, "no hardware counters (PMU)"},
                                               {EACCES, "Permission denied"}};
  for (const auto& [error, text] : table) {
    HostFacts facts = good_host();
    facts.cycles_error = error;
    const CheckPoint pmu = check_host(facts).back();
    EXPECT_EQ(pmu.name, "pmu");
    EXPECT_THAT(pmu.message, HasSubstr(text));
    EXPECT_THAT(pmu.message, Not(HasSubstr("No such file")));
  }
}

TEST(HostChecks, AcceptsSysAdminInPlaceOfTheCapabilitiesThatItImplies) {
  HostFacts facts = good_host();
  facts.capabilities = bit(CAP_SYS_ADMIN) | bit(CAP_SYS_PTRACE) | bit(CAP_DAC_READ_SEARCH);
  EXPECT_THAT(missing_features(facts), IsEmpty());
}

TEST(HostChecks, AcceptsLaterKernels) {
  for (const char* release : {"6.1", "6.18.44-fc", "7.0.0", "10.2-rc1"}) {
    HostFacts facts = good_host();
    facts.kernel_release = release;
    EXPECT_THAT(missing_features(facts), IsEmpty()) << release;
  }
}

}  // namespace
}  // namespace profd
