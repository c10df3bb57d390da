#include "daemon/control/shared_answers.h"

namespace profd {

const std::string& SharedAnswers::find_or_make(std::string_view name,
                                               const std::function<std::string()>& make) {
  const auto now = std::chrono::steady_clock::now();
  const auto known = answers_.find(name);
  if (known != answers_.end() && now < known->second.made + max_age_) return known->second.text;
  return answers_.insert_or_assign(std::string(name), Answer{.text = make(), .made = now})
      .first->second.text;
}

}  // namespace profd
