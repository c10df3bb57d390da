#include "ctl/sources/target_labels.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/errors.h"
#include "formats/base/whole_file.h"
#include "formats/proc/passwd.h"

namespace profd {
namespace {

// As the daemon labels users: the name on this host, else "#UID".
std::vector<std::string> user_labels(const std::vector<std::uint32_t>& uids) {
  const auto file = read_whole_file("/etc/passwd");
  const auto names = parse_user_names(file ? *file : std::string());
  std::vector<std::string> labels;
  for (const std::uint32_t uid : uids) {
    labels.push_back("#" + std::to_string(uid));
    const auto known = names.find(uid);
    if (known != names.end()) labels.push_back(known->second);
  }
  return labels;
}

bool has_text(const std::vector<std::string>& texts, std::string_view text) {
  return std::ranges::find(texts, text) != texts.end();
}

}  // namespace

Result<void> check_target_of_labels(const TargetRequest& target) {
  if (target.cgroups.empty()) return {};
  return invalid_argument("the samples of a file or session have no cgroups",
                          "choose by --unit or --container; the history takes --cgroup");
}

std::vector<bool> labels_of_target(const TargetRequest& target, const Samples& samples) {
  const std::vector<std::string> users = user_labels(target.uids);
  std::vector<bool> is_kept;
  is_kept.reserve(samples.labels().size());
  for (const SampleLabels& set : samples.labels()) {
    const std::string_view container = samples.text(set.container);
    const bool has_container = std::ranges::any_of(target.containers, [&](const std::string& id) {
      return !container.empty() && (container.starts_with(id) || id.starts_with(container));
    });
    is_kept.push_back(target.all || has_container ||
                      std::ranges::find(target.pids, set.pid) != target.pids.end() ||
                      has_text(target.comms, samples.text(set.comm)) ||
                      has_text(target.units, samples.text(set.unit)) ||
                      has_text(users, samples.text(set.user)));
  }
  return is_kept;
}

Error no_sample_of(const TargetRequest& target) {
  return fail(ErrorCode::kNotFound, "no sample is of " + describe(target),
              "'profctl report --by process' shows the processes of a source");
}

Result<void> keep_target(const TargetRequest& target, Samples& samples) {
  if (auto checked = check_target_of_labels(target); !checked) return checked;
  samples.keep_labels(labels_of_target(target, samples));
  if (!samples.rows().empty()) return {};
  return no_sample_of(target);
}

}  // namespace profd
