// Lists the events that --event knows, and whether this host has them.

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/commands/subcommand.h"
#include "ctl/output/text.h"
#include "formats/api/event_list.h"
#include "formats/base/json_text.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::string_view kXrayHelp =
    "each call of a function of a program that is built with LLVM XRay; needs --pid";

enum class Presence : std::uint8_t { kYes, kNo, kUnknown };

std::string_view name_of(Presence presence) {
  switch (presence) {
    case Presence::kYes:
      return "yes";
    case Presence::kNo:
      return "no";
    default:
      return "unknown";
  }
}

// Opens the event as a sampler does, for this process alone. profd may open it where this user may
// not.
Presence presence_of(const KnownEvent& event) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.sample_period = 1'000'000;
  attributes.disabled = 1;
  attributes.exclude_kernel = ::geteuid() == 0 ? 0 : 1;
  attributes.exclude_hv = attributes.exclude_kernel;
  const UniqueFd fd(static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (fd.valid()) return Presence::kYes;
  const bool may_not = errno == EACCES || errno == EPERM || errno == ENOSYS;
  return may_not ? Presence::kUnknown : Presence::kNo;
}

// They need the types of the kernel (BTF). Whether profd may attach to them, only it can say.
Presence presence_of_blocks() {
  return ::access("/sys/kernel/btf/vmlinux", F_OK) == 0 ? Presence::kYes : Presence::kNo;
}

class Events final : public Subcommand {
 public:
  Events() : Subcommand("events", "List the events that --event knows") {}

  Result<int> run(Client& /*client*/, const Console& console) override {
    TableRows rows{{"EVENT", "ON THIS HOST", "WHAT IS SAMPLED"}};
    boost::json::array list;
    bool are_known = true;
    const auto add = [&](std::string_view name, Presence presence, std::string_view help) {
      rows.push_back({std::string(name), std::string(name_of(presence)), std::string(help)});
      list.push_back(
          boost::json::object{{"event", name}, {"on_host", name_of(presence)}, {"help", help}});
      are_known = are_known && presence != Presence::kUnknown;
    };
    for (const KnownEvent& event : known_events()) add(event.name, presence_of(event), event.help);
    for (const KnownEvent& event : block_events()) {
      add(event.name, presence_of_blocks(), event.help);
    }
    add("xray", Presence::kYes, kXrayHelp);
    if (console.json) {
      console.out << json_text(boost::json::object{{"events", std::move(list)}}) << "\n";
      return kExitOk;
    }
    print_table(std::move(rows), console.out);
    if (!are_known) {
      console.err << "profctl: this user may not open perf events: ask root what the host has\n";
    }
    return kExitOk;
  }
};

}  // namespace

std::unique_ptr<Subcommand> make_events() { return std::make_unique<Events>(); }

}  // namespace profd
