// Every field of every message is encoded. A value that is set comes back, a missing byte is an
// error, and bytes that no writer makes are refused.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"
#include "tests/support/members.h"

namespace atl::wire {
namespace {

// Visits the values of a message, including those within its members, and numbers them.
class Values {
 public:
  // `change` is called with value number `which`.
  explicit Values(int which = -1) : which_(which) {}

  template <typename... T>
  void operator()(T&... values) {
    (Visit(values), ...);
  }
  template <typename T>
  void Enum(T& value, T first, T last) {
    if (count_++ == which_) value = value == last ? first : last;
  }
  template <typename T>
  void List(std::vector<T>& list, size_t most) {
    if (count_++ == which_) Grow(list, list.size() + 1);
    if (count_++ == which_) Grow(list, most);
  }
  int count() const { return count_; }

 private:
  template <typename T>
  static void Grow(std::vector<T>& list, size_t size) {
    while (list.size() < size) list.emplace_back();
  }
  template <typename T>
  void Visit(T& value) {
    if constexpr (requires { T::Fields(value, *this); }) {
      T::Fields(value, *this);
    } else if constexpr (std::is_same_v<T, UniqueFd>) {
      value.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } else if constexpr (std::is_same_v<T, bool>) {
      if (count_++ == which_) value = !value;
    } else if constexpr (std::is_integral_v<T>) {
      if (count_++ == which_) value = static_cast<T>(~value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (count_++ == which_) value = std::string("t\0xt", 4);
    } else if constexpr (!std::is_empty_v<T>) {
      for (auto& item : value) Visit(item);
    }
  }
  const int which_;
  int count_ = 0;
};

// Makes one list longer than allowed.
class TooLong {
 public:
  explicit TooLong(int which) : which_(which) {}
  template <typename... T>
  void operator()(T&... values) {
    (Visit(values), ...);
  }
  template <typename T>
  void Enum(T&, T, T) {}
  template <typename T>
  void List(std::vector<T>& list, size_t most) {
    if (count_++ != which_) return;
    while (list.size() <= most) list.emplace_back();
  }
  int count() const { return count_; }

 private:
  template <typename T>
  void Visit(T& value) {
    if constexpr (requires { T::Fields(value, *this); }) T::Fields(value, *this);
  }
  const int which_;
  int count_ = 0;
};

struct Count {
  template <typename... T>
  void operator()(const T&...) {
    fields += sizeof...(T);
  }
  template <typename T>
  void Enum(const T&, T, T) {
    ++fields;
  }
  template <typename T>
  void List(const std::vector<T>&, size_t) {
    ++fields;
  }
  size_t fields = 0;
};

template <typename T>
size_t Listed() {
  Count count;
  if constexpr (!std::is_empty_v<T>) {
    const T message;
    T::Fields(message, count);
  }
  return count.fields;
}

// The packet type that carries a message, and the decoded packet.
template <typename T, typename... Alternatives>
consteval bool IsOneOf(const std::variant<Alternatives...>*) {
  return (std::is_same_v<T, Alternatives> || ...);
}
template <typename T>
constexpr bool kIsRequest = IsOneOf<T>(static_cast<const Message*>(nullptr));

template <typename T>
std::conditional_t<kIsRequest<T>, Request, Reply> Wrapped(T message) {
  return {0x1122334455667788, std::move(message)};
}
// Encodes a decoded packet again.
template <typename Read>
std::optional<std::string> Again(const Result<Read>& read) {
  if (!read) return std::nullopt;
  return EncodePacket(*read).bytes;
}

// The number of each message on the wire. Lines may be added and never changed: a number that was
// used once is never given to another message (7 and 10 were used).
struct Row {
  const char* name;
  uint8_t type;
  size_t descriptors;
};
constexpr Row kRequests[] = {
    {"Hello", 1, 0},           {"PrepareSlot", 2, 2},    {"DropSlot", 3, 0},
    {"Build", 4, 0},           {"Freeze", 5, 0},         {"Destroy", 6, 0},
    {"SplitArchive", 18, 2},   {"ExtractLayer", 19, 1},  {"PackLayer", 22, 1},
    {"CopyUpper", 20, 0},      {"DiffUpper", 21, 1},     {"PublishLayer", 8, 0},
    {"RemoveLayer", 9, 0},     {"Stop", 11, 0},          {"MakeVolume", 12, 0},
    {"RemoveVolume", 13, 0},   {"MeasureVolume", 14, 0}, {"CheckVolume", 15, 0},
    {"Ping", 16, 0},           {"KeepRules", 17, 1},     {"MakeSession", 23, 2},
    {"EndSession", 24, 0},     {"Reclaim", 25, 0},       {"MountObjects", 26, 0},
    {"MeasureSandbox", 27, 0}, {"CheckLayers", 28, 0},   {"ChangeLimits", 30, 0},
    {"SettleEnds", 29, 0},     {"MeasureDisks", 31, 0},  {"StartInterceptor", 32, 1},
};
constexpr Row kAnswers[] = {
    {"Done", 1, 0},         {"Failed", 2, 0},     {"Exited", 3, 0},      {"Greeting", 4, 0},
    {"PreparedSlot", 5, 1}, {"Built", 6, 0},      {"Unpacked", 7, 0},    {"DiskUse", 8, 0},
    {"Copied", 9, 0},       {"Reclaimed", 10, 0}, {"VolumeLost", 11, 0}, {"CheckedLayers", 12, 0},
    {"Destroyed", 13, 0},   {"Ends", 14, 0},      {"Disks", 15, 0},      {"Interceptor", 16, 1},
};
static_assert(std::size(kRequests) == std::variant_size_v<Message>, "a message without its line");
static_assert(std::size(kAnswers) == std::variant_size_v<Answer>, "an answer without its line");

// A message with its type erased. Typed tests of all messages would make this file compile half as
// long again.
struct AnyMessage {
  Row row;
  bool is_request, is_hello, is_greeting;
  size_t listed, members;
  int values;
  // Returns the packet with value number `which` changed; -1: with none changed.
  Packet (*with)(int which);
  // Returns the packet with list number `which` longer than allowed, or nothing if there are fewer
  // lists.
  std::optional<Packet> (*too_long)(int which);

  std::optional<std::string> Again(const Packet& packet, int more_descriptors = 0) const {
    std::vector<UniqueFd> descriptors(packet.descriptors.size() +
                                      static_cast<size_t>(more_descriptors));
    return is_request ? wire::Again(DecodeRequest(packet.bytes, descriptors))
                      : wire::Again(DecodeReply(packet.bytes, descriptors));
  }
  bool Reads(const Packet& packet, int more_descriptors = 0) const {
    return Again(packet, more_descriptors).has_value();
  }
  friend void PrintTo(const AnyMessage& message, std::ostream* out) { *out << message.row.name; }
};

template <typename T>
Packet With(int which) {
  T message;
  Values one(which);
  one(message);
  return EncodePacket(Wrapped(std::move(message)));
}
template <typename T>
std::optional<Packet> WithTooLong(int which) {
  T message;
  Values()(message);
  TooLong one(which);
  one(message);
  if (which >= one.count()) return std::nullopt;
  return EncodePacket(Wrapped(std::move(message)));
}
template <typename T>
int CountValues() {
  T message;
  Values values;
  values(message);
  return values.count();
}
template <typename T>
AnyMessage AnyOf(const Row& row) {
  return {row,
          kIsRequest<T>,
          std::is_same_v<T, Hello>,
          std::is_same_v<T, Greeting>,
          Listed<T>(),
          Members<T>(),
          CountValues<T>(),
          &With<T>,
          &WithTooLong<T>};
}
template <typename... T>
void AddAll(const Row* row, const std::variant<T...>*, std::vector<AnyMessage>& all) {
  (all.push_back(AnyOf<T>(*row++)), ...);
}
// Returns all messages, so that a message that is added to a variant is tested, too.
std::vector<AnyMessage> AllMessages() {
  std::vector<AnyMessage> all;
  AddAll(kRequests, static_cast<Message*>(nullptr), all);
  AddAll(kAnswers, static_cast<Answer*>(nullptr), all);
  return all;
}

class Messages : public testing::TestWithParam<AnyMessage> {};
INSTANTIATE_TEST_SUITE_P(All, Messages, testing::ValuesIn(AllMessages()),
                         [](const auto& any) { return std::string(any.param.row.name); });

TEST_P(Messages, ListAllTheirFields) {
  EXPECT_EQ(GetParam().listed, GetParam().members);
}

TEST_P(Messages, AreWhatWasSent) {
  const AnyMessage& message = GetParam();
  const Packet unchanged = message.with(-1);
  for (int which = -1; which < message.values; ++which) {
    const Packet packet = message.with(which);
    EXPECT_EQ(packet.bytes == unchanged.bytes, which < 0) << "value " << which;
    // A greeting in another protocol is decoded without its other fields.
    if (message.is_greeting && which == 0) continue;
    EXPECT_EQ(message.Again(packet), packet.bytes) << "value " << which;
  }
}

TEST_P(Messages, AreReadWholeOrNotAtAll) {
  const AnyMessage& message = GetParam();
  Packet packet = message.with(-1);
  const std::string whole = packet.bytes;
  for (size_t size = 0; size < whole.size(); ++size) {
    packet.bytes = whole.substr(0, size);
    EXPECT_FALSE(message.Reads(packet)) << size;
  }
  packet.bytes = whole + '\0';
  EXPECT_EQ(message.Reads(packet), message.is_hello);
  packet.bytes = whole;
  EXPECT_EQ(message.Reads(packet, 1), message.is_hello);
  if (packet.descriptors.empty()) return;
  EXPECT_FALSE(message.Reads(packet, -1));
}

TEST_P(Messages, HaveNoListLongerThanAllowed) {
  for (int which = 0;; ++which) {
    const auto packet = GetParam().too_long(which);
    if (!packet) break;
    EXPECT_FALSE(GetParam().Reads(*packet)) << "list " << which;
  }
}

TEST_P(Messages, HaveTheirNumberForEver) {
  const Packet packet = GetParam().with(-1);
  EXPECT_EQ(static_cast<uint8_t>(packet.bytes.at(8)), GetParam().row.type);
  EXPECT_EQ(packet.descriptors.size(), GetParam().row.descriptors);
}

TEST(Numbers, AreOfOneMessageEach) {
  std::set<std::pair<bool, uint8_t>> known;
  const std::vector<AnyMessage> all = AllMessages();
  for (const AnyMessage& message : all) {
    EXPECT_TRUE(known.emplace(message.is_request, message.row.type).second) << message.row.name;
  }
  for (const AnyMessage& any : {all.front(), all.back()}) {  // one request, one answer
    for (int type = 0; type < 256; ++type) {
      std::string bytes(8, '\1');
      bytes += static_cast<char>(type);
      const bool has_meaning = known.contains({any.is_request, static_cast<uint8_t>(type)});
      EXPECT_TRUE(has_meaning || !any.Reads({bytes, {}})) << type;
    }
  }
}

// A hello of any protocol is readable, so that each side can report its protocol. Nothing else of
// it is used.
TEST(OfAnyProtocol, AHelloIsRead) {
  const std::string bytes = EncodeFields(Request{7, Hello()});
  for (const std::string& other : {bytes, bytes + "more"}) {
    const auto read = DecodeRequest(other);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->number, 7U);
    EXPECT_TRUE(std::holds_alternative<Hello>(read->message));
  }
  EXPECT_FALSE(DecodeRequest(bytes.substr(0, 8)));
}

TEST(OfAnyProtocol, AGreetingTellsWhich) {
  Greeting greeting;
  greeting.instance = 5;
  greeting.more = true;
  const std::string ours = EncodeFields(Reply{7, greeting});
  greeting.protocol = kSpawnerProtocol + 1;
  const std::string bytes = EncodeFields(Reply{7, greeting});
  for (const std::string& other : {bytes, bytes + "more", bytes.substr(0, 13)}) {
    const auto read = DecodeReply(other);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->number, 7U);
    const auto& theirs = std::get<Greeting>(read->answer);
    EXPECT_EQ(theirs.protocol, kSpawnerProtocol + 1);
    EXPECT_EQ(theirs.instance, 0U);
    EXPECT_FALSE(theirs.more) << "nobody sends more";
  }
  EXPECT_FALSE(DecodeReply(bytes.substr(0, 12)));
  EXPECT_TRUE(DecodeReply(ours));
  EXPECT_FALSE(DecodeReply(ours + "more"));
}

// A value has only one encoding.
TEST(Reader, RefusesWhatNoWriterWrites) {
  bool flag = false;
  EXPECT_TRUE(DecodeFields(std::string(1, '\1'), &flag) && flag);
  EXPECT_FALSE(DecodeFields(std::string(1, '\2'), &flag));
  int number = 0;
  EXPECT_TRUE(DecodeFields(EncodeFields(int64_t{-5}), &number));
  EXPECT_EQ(number, -5);
  EXPECT_FALSE(DecodeFields(EncodeFields(int64_t{1} << 32), &number));
  std::string text = EncodeFields(std::string("x"));
  text[0] = 2;
  std::string read;
  EXPECT_FALSE(DecodeFields(text, &read));
}

TEST(Reader, RefusesEnumeratorsThatThereAreNot) {
  for (const int kind : {0, 3, 255}) {
    StartReport report;
    report.kind = static_cast<StartReport::Kind>(kind);
    EXPECT_FALSE(DecodeStartReport(report.Encode())) << kind;
  }
  Volume volume;
  volume.kind = static_cast<Volume::Kind>(3);
  EXPECT_FALSE(DecodeFields(EncodeFields(volume), &volume));
  Failed failed;
  failed.code = static_cast<Code>(10);
  EXPECT_FALSE(DecodeReply(EncodeFields(Reply{1, failed})));
}

// Structs that are not messages of their own.
template <typename T>
class Parts : public testing::Test {};
using PartTypes = testing::Types<Plan, Volume, SandboxRecord, StartMessage, TrustedAuthority,
                                 StartReport, cgroup::Limits>;
TYPED_TEST_SUITE(Parts, PartTypes);

TYPED_TEST(Parts, ListAllTheirFields) {
  EXPECT_EQ(Listed<TypeParam>(), Members<TypeParam>());
}

TYPED_TEST(Parts, AreWhatWasSent) {
  Values values;
  TypeParam plain;
  values(plain);
  for (int which = 0; which < values.count(); ++which) {
    TypeParam part;
    Values one(which);
    one(part);
    const std::string bytes = EncodeFields(part);
    EXPECT_NE(bytes, EncodeFields(plain)) << which;
    TypeParam read;
    ASSERT_TRUE(DecodeFields(bytes, &read)) << which;
    EXPECT_EQ(EncodeFields(read), bytes) << which;
    EXPECT_FALSE(DecodeFields(bytes + '\0', &read));
    EXPECT_FALSE(DecodeFields(std::string_view(bytes).substr(1), &read));
  }
}

}  // namespace
}  // namespace atl::wire
