"""JSON texts that must pass (YES), must be refused (NO), or that RFC 8259 leaves to us (OURS).

In the manner of Nicolas Seriot's "Parsing JSON is a minefield".
"""

from __future__ import annotations

YES = [
    b"[]", b"[ ]", b"{}", b" {} ", b"\n[\t1\r]\n", b"null", b"true", b"false", b'""', b'"x"', b"0",
    b"-0", b"-0.0", b"1", b"-1", b"1.5", b"1e5", b"1E5", b"1e+5", b"1E-5", b"0e1", b"0E+1",
    b"1.0e-2", b"123456789012345678901234567890", b"-" + b"9" * 600, b"0." + b"1" * 400,
    b"1E400", b"-1e99999", b"1e-99999", b"1" * 5000,
    b'["\\"\\\\\\/\\b\\f\\n\\r\\t"]', b'["\\u0041\\uABCD\\uabcd"]', b'["\\ud834\\udd1e"]',
    b'["\\u0000"]', b'"\\u2028\\u2029"', b'["\x7f"]', '["é\U0001f600\u2028\ufeff"]'.encode(),
    b'["a]b[c{d}e,:"]', b'{"a":1,"a":2}', b'{"":0}', b'{"a":[],"b":{}}', b'{"\\u0061":1}',
    b'{"a" : 1 , "b" : [ 1 , 2 ] }', b'[[[[[[[[[[]]]]]]]]]]', b'[null,true,false,0,"",[],{}]',
    b'{"\x7f":"\xc2\x80"}', b'["\xf4\x8f\xbf\xbf"]', b'{"a":{"b":[{"c":[1]}]}}',
    # Lone surrogates: grammar allows them.
    b'["\\ud800"]', b'["\\udfff"]', b'["\\ud800\\ud800"]', b'["\\udd1e\\ud834"]', b'"\\uDADA"',
    b'{"\\ud800":1}', b'["\\ud800\\n"]', b'["\\ud800abc"]', b'["\\uD888\\u1234"]', b' "\\udc00" ',
    b'{"id":"7","x":["\\ud800",{"y":1E400}]}', b'["\\\\ud800"]', b'{"id":"\\ud800"}',
]  # fmt: skip

NO = [
    b" ", b"\n", b"[", b"]", b"{", b"}", b"[1", b"[1,", b"[1,]", b"[,1]", b"[,]", b"[1,,2]",
    b"[1 2]", b"[1]]", b"[1}", b"{1}", b"[1]x", b"1 2", b"{} {}", b"[]\x00", b"[1:2]", b'["a":1]',
    b"nul", b"nulll", b"True", b"TRUE", b"truefalse", b"NaN", b"[NaN]", b"[-NaN]", b"Infinity",
    b"-Infinity", b"[Infinity]", b"[inf]", b"undefined", b"-", b"+1", b"[+1]", b"01", b"-01",
    b"[012]", b"1.", b".5", b"[-.5]", b"1.e5", b"1e", b"1e+", b"1eE2", b"0x1", b"1_000", b"[1.2.3]",
    b"[- 1]", b"[1e1.5]", b"2.e+3", b"[0e]", b"[1ea]", b"[\xef\xbc\x91]", b"-a", b"1a", b"[++1]",
    b'"', b'"a', b'["a]', b"'a'", b"['a']", b'["\\x41"]', b'["\\a"]', b'["\\u12"]', b'["\\u"]',
    b'["\\u00G0"]', b'["\\uZZZZ"]', b'["\\U0041"]', b'["\\"]', b'["\\', b'"\\', b'["\n"]',
    b'["\t"]', b'["\x00"]', b'["\x1f"]', b'["\\\x00"]', b'["\\ud800\\u"]', b'["\\ud800\\u1x"]',
    b'{"a"}', b'{"a":}', b'{"a" 1}', b'{"a":1,}', b'{,"a":1}', b'{a:1}', b"{1:2}", b"{'a':1}",
    b'{"a":1 "b":2}', b'{"a":1,,"b":2}', b'{"a":1}}', b'{"a":1}#', b'{"a":1}/*c*/', b"/**/{}",
    b'{"a"::1}', b'{"a":1;"b":2}', b'{null:1}', b'{"a":1', b'{"a":', b'{"a"', b'{[]:1}',
    b"\xef\xbb\xbf{}", b"\xef\xbb\xbf", b"\xff\xfe{\x00}\x00", b"\xfe\xff\x00{\x00}",
    b"[\x0c]", b"\x0b[]", b"\xc2\xa0[]", b"[\xe2\x81\xa0]", b"[1\x00]", b"*", b"<html>", b"a",
    b"\\",
    # Invalid where only the slow reading looks, beside a lone surrogate.
    b'["\\ud800",]', b'["\\ud800"', b'["\\ud800"]]', b'{"a":"\\ud800",}', b'{1:"\\ud800"}',
    b'["\\ud800",NaN]', b'["\\ud800",-Infinity]', b'["\\ud800","\x01"]', b'["\\ud800",01]',
    b'["\\ud800" "\\ud800"]', b'{"a":"\\ud800"} x', b'"\\ud800""', b'["\\ud800",\xc2\xa01]',
]  # fmt: skip

# Our own rule: bad UTF-8 is malformed, wherever it stands.
BAD_UTF8 = [
    b'["\xff"]', b'{"a":"\xe9"}', b'"\xc0\xaf"', b'["\xed\xa0\x80"]', b'["\xf4\x90\x80\x80"]',
    b'["\xe2\x82"]', b'{"\xff":1}', b'{"id":"1","other":"\xfc\x80"}', b'["\\ud800\xff"]',
    b'{"id":"\\ud800","x":"\xff"}', b'["\xff","\\ud800"]',
]  # fmt: skip

# Every key rule must give the same verdict on validity.
POINTERS = [(), ("/id",), ("/a",), ("/a/b/0/c",), ("/0",), ("",), ("/id", "/a/b"), ("/x/0", "/id")]
