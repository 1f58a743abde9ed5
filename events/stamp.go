package events

// maxStamp is the last millisecond of the year 9999, the last that RFC 3339 can write.
const maxStamp Stamp = 253402300799999

// ParseStamp reads an RFC 3339 time with offset, such as 2026-11-20T14:00:00.25Z.
// T and Z are upper case and the fraction has at most nine digits, of which those
// after the third are cut off. It is false for any other form, for a date that the
// calendar does not have, for a leap second, and for times before 1970 or after 9999.
// Cut off and not rounded, a time is the Stamp that StampOf gives of it. The form is narrower
// than that of time.Parse, so that whoever writes or reads a time in another language means
// the same instant.
func ParseStamp(s string) (Stamp, bool) {
	// s[19] is there below because of it: the Z, the sign of an offset or the point.
	const shortest = len("2006-01-02T15:04:05Z")
	if len(s) < shortest || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	century, year, month, day := twoDigits(s, 0), twoDigits(s, 2), twoDigits(s, 5), twoDigits(s, 8)
	hour, minute, second := twoDigits(s, 11), twoDigits(s, 14), twoDigits(s, 17)
	// twoDigits is negative when it found no digits, and or keeps the sign.
	if century|year|month|day|hour|minute|second < 0 {
		return 0, false
	}
	year += 100 * century
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	ms, rest := 0, 19
	if s[rest] == '.' {
		weight := 100
		for rest++; rest < len(s) && s[rest]-'0' <= 9; rest++ {
			ms += int(s[rest]-'0') * weight
			// From the fourth digit on the weight is 0.
			weight /= 10
		}
		if digits := rest - 20; digits < 1 || digits > 9 {
			return 0, false
		}
	}
	offset, ok := zoneMinutes(s[rest:])
	if !ok {
		return 0, false
	}
	at := Stamp(((daysSince1970(year, month, day)*24+hour)*60+minute-offset)*60_000 + second*1000 + ms)
	return at, at >= 0 && at <= maxStamp
}

// zoneMinutes reads Z or an offset such as +05:30, in minutes east of Greenwich. No offset is
// negative zero: -00:00 is UTC.
func zoneMinutes(s string) (int, bool) {
	if s == "Z" {
		return 0, true
	}
	if len(s) != len("+00:00") || s[3] != ':' || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	hour, minute := twoDigits(s, 1), twoDigits(s, 4)
	if hour|minute < 0 || hour > 23 || minute > 59 {
		return 0, false
	}
	if s[0] == '-' {
		return -hour*60 - minute, true
	}
	return hour*60 + minute, true
}

// twoDigits reads the two digits at i; it is negative when they are none.
//
// s must have both.
func twoDigits(s string, i int) int {
	tens, ones := s[i]-'0', s[i+1]-'0'
	if tens > 9 || ones > 9 {
		return -1
	}
	return int(tens)*10 + int(ones)
}

// daysIn is the length of a month in the Gregorian calendar.
//
// It takes a month from 1 to 12.
func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince1970 counts with years that begin in March, so that the day that leap
// years add comes last.
//
// (153*(month-3)+2)/5 is how many days lie between 1 March and the first of the month: 31, 30,
// 31, 30, 31 in turn.
func daysSince1970(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	const from0000 = 719468 // days from 1 March of the year 0 to 1 January 1970
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - from0000
}

// append appends s as RFC 3339 in UTC with milliseconds. It does by hand what
// time.Time.AppendFormat does with layout, for that costs several times as much.
func (s Stamp) append(dst []byte) []byte {
	// Arithmetic may lead outside of what ParseStamp reads; such a Stamp is still printed.
	if s < 0 || s > maxStamp {
		return s.Time().AppendFormat(dst, layout)
	}
	t := s.Time()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	ms := int(s % 1000)
	dst = appendTwo(appendTwo(dst, year/100), year%100)
	dst = appendTwo(append(dst, '-'), int(month))
	dst = appendTwo(append(dst, '-'), day)
	dst = appendTwo(append(dst, 'T'), hour)
	dst = appendTwo(append(dst, ':'), minute)
	dst = appendTwo(append(dst, ':'), second)
	dst = append(dst, '.', byte('0'+ms/100))
	return append(appendTwo(dst, ms%100), 'Z')
}

// appendTwo appends a number below 100 as two digits.
func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
