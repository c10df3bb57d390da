// What the page of `profctl web` can ask for. One thread calls it.
//
//     /                     the page; /NAME.js, /NAME.css: its files (ctl/page)
//     /api/source           {"title","kind"}: what is shown; kind is history or file
//     /api/timeline         timeline.h
//     /api/list             process_list.h
//     /api/worth            picture_worth.h
//     /api/flame            flame_json.h; around=NAME&direction=callers|callees: of one function;
//                           zoom=PATH: more of a part (zoomed_tree.h)
//     /api/search           search=REGEX&zoom=PATH: {"matched":{"samples","cpu_ns"}}, of all stacks
//                           (matched_samples.h)
//     /api/table            the JSON of 'report', docs/api.md
//     /api/diff             the JSON of 'diff', of base_since and base_until and the range
//     /api/lines            around=NAME: {"scope","lines":[{"file","line","self","total","text"}]}
//     /api/export           form=...: web_export.h
//     /debug/pprof/profile  seconds=N: new samples as a .pb.gz, as Go's net/http/pprof has it; with
//                           filters, what they leave (selected_pprof.h)
//
// view_fields.h has the fields of all of them.

#pragma once

#include <string>
#include <utility>

#include "ctl/client/client.h"
#include "ctl/sources/source.h"
#include "ctl/views/selection.h"
#include "ctl/web/shown_samples.h"
#include "ctl/web/view_fields.h"
#include "ctl/web/web_reply.h"
#include "ctl/web/web_request.h"

namespace profd {

class WebViews {
 public:
  // `page_folder`: files of the page that take the place of those in the program; empty: none.
  // The target of the source and `patterns`, of the command line, hold for all requests, which may
  // narrow them. CPU use over time of the history and /api/worth are not narrowed by patterns. The
  // former is known for a narrower target only where its terms are some of the source's.
  WebViews(Client& client, SourceRequest source, std::string page_folder,
           SelectionPatterns patterns = {})
      : client_(client),
        samples_(client, std::move(source)),
        page_folder_(std::move(page_folder)),
        patterns_(std::move(patterns)) {}

  [[nodiscard]] WebReply answer(const WebRequest& request);

  // Reads what is shown at first, so that an error comes at once. The history is read only if the
  // command line has a time, and a target or filter; of the whole history, the daemon says whether
  // it has the target. kNotFound: no sample is left.
  [[nodiscard]] Result<void> check();

 private:
  using View = Result<std::string> (WebViews::*)(const WebRequest&);
  struct Shown;

  [[nodiscard]] Result<void> check_whole_history();
  [[nodiscard]] Result<Shown> open(const WebRequest& request);
  [[nodiscard]] Result<std::string> source(const WebRequest& request);
  [[nodiscard]] Result<std::string> timeline(const WebRequest& request);
  [[nodiscard]] Result<std::string> list(const WebRequest& request);
  [[nodiscard]] Result<std::string> worth(const WebRequest& request);
  [[nodiscard]] Result<std::string> flame(const WebRequest& request);
  [[nodiscard]] Result<std::string> search(const WebRequest& request);
  [[nodiscard]] Result<std::string> table(const WebRequest& request);
  [[nodiscard]] Result<std::string> diff(const WebRequest& request);
  [[nodiscard]] Result<std::string> lines(const WebRequest& request);
  [[nodiscard]] WebReply download(const WebRequest& request);
  [[nodiscard]] WebReply start_profile(const WebRequest& request);
  // `target` and `patterns` choose what is left of its samples.
  [[nodiscard]] WebReply stop_profile(const std::string& session, const TargetRequest& target,
                                      const SelectionPatterns& patterns);
  [[nodiscard]] WebReply page_file(const std::string& name) const;

  Client& client_;
  ShownSamples samples_;
  std::string page_folder_;
  SelectionPatterns patterns_;
};

}  // namespace profd
