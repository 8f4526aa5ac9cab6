// atoll-objects: isolates the program that serves a bucket. See README.md in this folder.
#include <charconv>
#include <cstdio>
#include <string_view>

#include "runtime/base/standard_streams.h"
#include "runtime/objects/hand_over.h"
#include "runtime/objects/relay.h"

int main(int argc, char** argv) {
  using namespace atl;
  OpenStandardStreams();
  const std::string_view name = argv[0];
  if (name.substr(name.rfind('/') + 1).starts_with("fusermount")) return objects::HandOver();
  constexpr int kListener = 3;
  int server = 0;
  if (argc == 5) {
    const std::string_view number = argv[4];
    std::from_chars(number.data(), number.data() + number.size(), server);
  }
  if (server <= 0 || std::string_view(argv[1]) != "relay") {
    std::fputs("atoll-objects: started by atoll-spawner, for a volume from an object store\n",
               stderr);
    return 2;
  }
  return objects::Relay(kListener, argv[2], argv[3], server) ? 0 : 1;
}
