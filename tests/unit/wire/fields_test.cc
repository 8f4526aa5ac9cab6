// Every field of every message travels: what is set comes back, each byte that is missing is
// missed, and what no writer writes is refused.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"
#include "runtime/wire/start.h"
#include "tests/support/members.h"

namespace atl::wire {
namespace {

// Visits the values that a message is made of, those within its members included, each with its
// number.
class Values {
 public:
  // `change` is called with the value of that number.
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
    if (count_++ == which_) Grow(list, 1);
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

// Makes one list longer than it may be.
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

// The packet that a message goes in, and what is read of one.
template <typename T, typename... Alternatives>
consteval bool IsOneOf(const std::variant<Alternatives...>*) {
  return (std::is_same_v<T, Alternatives> || ...);
}
template <typename T>
constexpr bool kIsRequest = IsOneOf<T>(static_cast<const Message*>(nullptr));
template <typename T>
using Envelope = std::conditional_t<kIsRequest<T>, Request, Reply>;

template <typename T>
Envelope<T> Wrapped(T message) {
  return {0x1122334455667788, std::move(message)};
}
auto Decode(std::string_view bytes, std::vector<UniqueFd>& descriptors, const Request*) {
  return DecodeRequest(bytes, descriptors);
}
auto Decode(std::string_view bytes, std::vector<UniqueFd>& descriptors, const Reply*) {
  return DecodeReply(bytes, descriptors);
}
template <typename E>
bool Reads(const Packet& packet, int more_descriptors, std::string* again) {
  std::vector<UniqueFd> descriptors(packet.descriptors.size() +
                                    static_cast<size_t>(more_descriptors));
  const auto read = Decode(packet.bytes, descriptors, static_cast<const E*>(nullptr));
  if (read && again != nullptr) *again = EncodePacket(*read).bytes;
  return read.has_value();
}

template <typename T>
class Messages : public testing::Test {};
template <typename... A, typename... B>
auto TypesOf(const std::variant<A...>*, const std::variant<B...>*) -> testing::Types<A..., B...>;
// All there are: one that is added to a variant is tested from then on.
using All = decltype(TypesOf(static_cast<Message*>(nullptr), static_cast<Answer*>(nullptr)));
TYPED_TEST_SUITE(Messages, All);

TYPED_TEST(Messages, ListAllTheirFields) {
  EXPECT_EQ(Listed<TypeParam>(), Members<TypeParam>());
}

TYPED_TEST(Messages, AreWhatWasSent) {
  using E = Envelope<TypeParam>;
  Values values;
  TypeParam plain;
  values(plain);
  const Packet unchanged = EncodePacket(Wrapped(std::move(plain)));
  for (int which = -1; which < values.count(); ++which) {
    TypeParam message;
    Values one(which);
    one(message);
    const Packet packet = EncodePacket(Wrapped(std::move(message)));
    EXPECT_EQ(packet.bytes == unchanged.bytes, which < 0) << "value " << which;
    // Of a greeting in another protocol that alone is read.
    if (std::is_same_v<TypeParam, Greeting> && which == 0) continue;
    std::string again;
    ASSERT_TRUE(Reads<E>(packet, 0, &again)) << "value " << which;
    EXPECT_EQ(again, packet.bytes) << "value " << which;
  }
}

TYPED_TEST(Messages, AreReadWholeOrNotAtAll) {
  using E = Envelope<TypeParam>;
  TypeParam message;
  Values()(message);
  Packet packet = EncodePacket(Wrapped(std::move(message)));
  const std::string whole = packet.bytes;
  const bool hello = std::is_same_v<TypeParam, Hello>;
  for (size_t size = 0; size < whole.size(); ++size) {
    packet.bytes = whole.substr(0, size);
    EXPECT_FALSE(Reads<E>(packet, 0, nullptr)) << size;
  }
  packet.bytes = whole + '\0';
  EXPECT_EQ((Reads<E>(packet, 0, nullptr)), hello);
  packet.bytes = whole;
  EXPECT_EQ((Reads<E>(packet, 1, nullptr)), hello);
  if (packet.descriptors.empty()) return;
  EXPECT_FALSE(Reads<E>(packet, -1, nullptr));
}

TYPED_TEST(Messages, HaveNoListLongerThanAllowed) {
  for (int which = 0;; ++which) {
    TypeParam message;
    Values()(message);
    TooLong one(which);
    one(message);
    if (which >= one.count()) break;
    EXPECT_FALSE(Reads<Envelope<TypeParam>>(EncodePacket(Wrapped(std::move(message))), 0, nullptr))
        << "list " << which;
  }
}

// What each number on the wire means. A line is added, none is changed: a number that was given is
// never another message's (7 and 10 were).
struct Row {
  const char* name;
  uint8_t type;
  size_t descriptors;
};
constexpr Row kRequests[] = {
    {"Hello", 1, 0},         {"PrepareSlot", 2, 2},    {"DropSlot", 3, 0},
    {"Build", 4, 0},         {"Freeze", 5, 0},         {"Destroy", 6, 0},
    {"SplitArchive", 18, 2}, {"ExtractLayer", 19, 1},  {"PackLayer", 22, 1},
    {"CopyUpper", 20, 0},    {"DiffUpper", 21, 1},     {"PublishLayer", 8, 0},
    {"RemoveLayer", 9, 0},   {"Stop", 11, 0},          {"MakeVolume", 12, 0},
    {"RemoveVolume", 13, 0}, {"MeasureVolume", 14, 0}, {"CheckVolume", 15, 0},
    {"Ping", 16, 0},         {"KeepRules", 17, 1},     {"MakeSession", 23, 2},
    {"EndSession", 24, 0},   {"Reclaim", 25, 0},       {"MountObjects", 26, 0},
};
constexpr Row kAnswers[] = {
    {"Done", 1, 0},         {"Failed", 2, 0},     {"Exited", 3, 0},      {"Greeting", 4, 0},
    {"PreparedSlot", 5, 1}, {"Built", 6, 0},      {"Unpacked", 7, 0},    {"VolumeUse", 8, 0},
    {"Copied", 9, 0},       {"Reclaimed", 10, 0}, {"VolumeLost", 11, 0},
};
static_assert(std::size(kRequests) == std::variant_size_v<Message>, "a message without its line");
static_assert(std::size(kAnswers) == std::variant_size_v<Answer>, "an answer without its line");

template <typename T>
Row RowOf() {
  T message;
  Values()(message);
  const Packet packet = EncodePacket(Wrapped(std::move(message)));
  return {"", static_cast<uint8_t>(packet.bytes.at(8)), packet.descriptors.size()};
}
template <typename... T>
std::vector<Row> RowsOf(const std::variant<T...>*) {
  return {RowOf<T>()...};
}

template <typename E, typename Body>
void ExpectRows(std::span<const Row> expected) {
  const std::vector<Row> rows = RowsOf(static_cast<const Body*>(nullptr));
  std::set<uint8_t> known;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].type, expected[i].type) << expected[i].name;
    EXPECT_EQ(rows[i].descriptors, expected[i].descriptors) << expected[i].name;
    EXPECT_TRUE(known.insert(rows[i].type).second) << expected[i].name;
  }
  for (int type = 0; type < 256; ++type) {
    std::string bytes(8, '\1');
    bytes += static_cast<char>(type);
    if (!known.contains(static_cast<uint8_t>(type))) {
      EXPECT_FALSE((Reads<E>({bytes, {}}, 0, nullptr))) << type;
    }
  }
}

TEST(Numbers, AreTheSameForEver) {
  ExpectRows<Request, Message>(kRequests);
  ExpectRows<Reply, Answer>(kAnswers);
}

// So that each can tell the other which protocol it speaks. Nothing else is taken from it.
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

// There is one way to write a value.
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

// What is not a message of its own.
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
