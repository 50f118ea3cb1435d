// Strong integer units. Files and flags speak seconds, milliseconds and fractions; inside HASE time
// is integer nanoseconds, memory bytes, a device share thousandths (MilliShare). Integers make a
// run repeatable bit for bit, and the types keep a share from being added to a time.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace hase {

template <typename Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(int64_t value) : value_(value) {}
  constexpr int64_t value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }
  friend constexpr Quantity operator*(Quantity a, int64_t factor) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator*(int64_t factor, Quantity a) { return a * factor; }
  // Rounded to nearest; the argument is a pure number.
  friend Quantity Scale(Quantity a, double factor) {
    return Quantity(std::llround(static_cast<double>(a.value_) * factor));
  }
  friend constexpr double Ratio(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  static constexpr Quantity Max() { return Quantity(std::numeric_limits<int64_t>::max()); }

 private:
  int64_t value_ = 0;
};

using Nanos = Quantity<struct NanosTag>;  // a duration, or a time since the run's start
using Bytes = Quantity<struct BytesTag>;
using MilliShare = Quantity<struct MilliShareTag>;  // 1000 = the whole device

constexpr Nanos kNoTime = Nanos(0);
constexpr MilliShare kWholeDevice = MilliShare(1000);

inline Nanos FromSeconds(double s) { return Nanos(std::llround(s * 1e9)); }
inline Nanos FromMillis(double ms) { return Nanos(std::llround(ms * 1e6)); }
inline Nanos FromMicros(double us) { return Nanos(std::llround(us * 1e3)); }
constexpr double ToSeconds(Nanos t) { return static_cast<double>(t.value()) * 1e-9; }
constexpr double ToMillis(Nanos t) { return static_cast<double>(t.value()) * 1e-6; }
constexpr double ToMicros(Nanos t) { return static_cast<double>(t.value()) * 1e-3; }
inline MilliShare ShareFromFraction(double f) { return MilliShare(std::llround(f * 1000)); }
constexpr double ToFraction(MilliShare s) { return static_cast<double>(s.value()) / 1000; }
constexpr Bytes MiB(int64_t n) { return Bytes(n << 20); }
constexpr Bytes GiB(int64_t n) { return Bytes(n << 30); }

}  // namespace hase
