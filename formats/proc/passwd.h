// /etc/passwd: the names of users (passwd(5)).

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace profd {

// Lines of another form are skipped, as libc does; of several names of one uid, the first counts.
[[nodiscard]] std::map<std::uint32_t, std::string> parse_user_names(std::string_view text);

}  // namespace profd
