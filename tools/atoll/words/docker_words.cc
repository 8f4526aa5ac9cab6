#include "tools/atoll/words/docker_words.h"

#include <cstring>
#include <string_view>

#include "tools/atoll/words/nearest.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

struct Hint {
  const char* words;  // each word between spaces
  const char* text;
};

constexpr Hint kVerbs[] = {
    {" fetch ", "type: atoll image pull NAME"},
    {" build buildx builder ",
     "images are made by recipes, see: atoll image build --help; what docker built: docker save "
     "it, "
     "then: atoll load -i FILE"},
    {" login logout ",
     "type: skopeo login --authfile FILE HOST, then: atoll image pull --authfile FILE"},
    {" search ", "registries are searched with their own tools; then: atoll image pull NAME"},
    {" import ", "type: atoll image import FILE --name NAME"},
    {" commit ", "type: atoll snapshot create ID, then: atoll run --snapshot SNAPSHOT"},
    {" export ", "type: atoll snapshot create ID, then: atoll snapshot export SNAPSHOT FILE"},
    {" history ", "an image's layers are told by: atoll image inspect NAME"},
    {" create ", "a sandbox runs from its creation on; type: atoll run -d IMAGE [COMMAND]"},
    {" start restart ",
     "a sandbox that has ended does not run again: atoll run; a paused one goes on with: atoll "
     "resume ID"},
    {" unpause ", "type: atoll resume ID"},
    {" rename update ", "what a sandbox has is set by: atoll run --name … -m … --cpus …"},
    {" info system context ",
     "about the host and the daemon: atoll doctor; what has ended goes with: atoll prune"},
    {" network ",
     "networks are made by naming one: atoll run --network NAME; what a sandbox reaches: atoll net "
     "ID"},
    {" compose swarm stack service node ",
     "sandboxes are started one by one: atoll run -d --network NAME --name … IMAGE"},
    {" container ", "leave the word out: atoll ps, atoll rm ID"},
    {" delete remove kill-all ", "type: atoll rm ID"},
    {" list ", "type: atoll ps"},
    {" ssh shell enter ", "type: atoll exec -it ID sh"},
};

constexpr Hint kOptions[] = {
    {" --privileged --cap-add --cap-drop --security-opt --device --userns --pid --ipc --uts "
     "--cgroupns ",
     "no sandbox gets privileges or a view of the host"},
    {" --publish-all -P ", "every port is reached already: atoll port ID PORT"},
    {" --restart ", "a sandbox that has ended does not run again"},
    {" --mount ", "type -v VOLUME:PATH[:ro]"},
    {" --tmpfs ", "/tmp, /run and /dev/shm are there to be written; /dev/shm is set by --shm SIZE"},
    {" --expose ", "every port is reached already: atoll port ID PORT"},
    {" --stop-signal --stop-timeout ", "type: atoll kill -s SIGNAL ID, atoll stop -t DURATION ID"},
    {" --format -f ", "what is told is JSON, of which jq takes what is wanted"},
    {" --since --until ", "all that is known is told; -f goes on from there"},
    {" --init ", "process 1 of a sandbox reaps anyway; leave it out"},
    {" --runtime ", "type --isolation KIND"},
    {" --pull --platform ", "images are imported or pulled, see: atoll image --help"},
    {" --hostname ", "type --name; in a network (--network NAME) it is the host's name, too"},
    {" --memory-swap ", "type --swap, which is the swap alone"},
    {" --ulimit ", "type --nofile N"},
    {" --storage-opt ", "type --disk SIZE"},
    {" --detach-keys --sig-proxy --cidfile ", "leave it out"},
    {" --add-host --dns --link ", "type --network NAME, where sandboxes find each other by name"},
};

template <size_t N>
const char* HintFor(const Hint (&hints)[N], const std::string& word) {
  const std::string wanted = " " + word + " ";
  for (const Hint& hint : hints) {
    if (std::strstr(hint.words, wanted.c_str()) != nullptr) return hint.text;
  }
  return nullptr;
}

}  // namespace

std::string UnknownVerb(const Verb& verb, const std::string& word) {
  const std::string said = "'" + Printable(word) + "' is no command of " + verb.Path();
  if (const char* const hint = HintFor(kVerbs, word)) return said + "; " + hint;
  Words known;
  for (const Verb& one : verb.verbs()) {
    known.insert(known.end(), one.names().begin(), one.names().end());
  }
  return said + OfferNearest(word, known);
}

std::string UnknownOption(const Verb& verb, const std::string& name) {
  const std::string said = verb.Path() + " has no option " + Printable(name);
  if (const char* const hint = HintFor(kOptions, name)) return said + "; " + hint;
  Words known;
  for (const Verb* at = &verb; at != nullptr; at = at->parent()) {
    for (const Option& option : at->options()) {
      const Words names = option.AllNames();
      known.insert(known.end(), names.begin(), names.end());
    }
  }
  // All single letters are equally near, so they get no suggestion.
  const std::string nearest = name.size() > 2 ? OfferNearest(name, known) : "";
  return nearest.empty() && verb.has_command() ? said + "; if it is the command's: after --"
                                               : said + nearest;
}

}  // namespace atl::cli
