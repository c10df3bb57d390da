// Downloads of what a page shows, in the forms of other programs.

#pragma once

#include <string>
#include <string_view>

#include "ctl/sources/source.h"
#include "ctl/views/selection.h"
#include "ctl/views/short_names.h"
#include "ctl/web/web_reply.h"

namespace profd {

// `form`: pprof, folded, speedscope, html, svg or gperftools. Each has the samples that `patterns`
// leave, and the names of these alone. A profile of gperftools has its names in a second file, so
// that form is a tar file of both: unpack it, and start pprof there. kInvalidArgument: another
// form. kNotFound: no sample is left.
[[nodiscard]] WebReply export_samples(const Source& source, std::string_view form,
                                      const SelectionPatterns& patterns, NameForm names);

}  // namespace profd
