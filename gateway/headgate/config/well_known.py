"""Words that people use as tokens while they try things, and that others therefore guess.

A configuration with the hash of one of them is refused: its producer would be open to everybody.
"""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Final

# Names of programs, placeholders of documents and examples, and the usual heads of lists of leaked
# passwords. Case and the endings below are added.
_TEXT: Final = """
    test testing tester testtoken test-token test_token my-test try trial check checks sample
    samples demo demos dummy fake mock stub temp tmp foo bar baz qux foobar foobarbaz quux hello
    helloworld hello-world world example examples example-token example_token token tokens mytoken
    my-token my_token thetoken the-token yourtoken your-token your_token accesstoken access-token
    access_token authtoken auth-token auth_token apitoken api-token api_token bearer bearertoken
    bearer-token producertoken producer-token operatortoken operator-token viewertoken viewer-token
    admintoken admin-token servicetoken service-token key keys apikey api-key api_key mykey my-key
    my_key yourkey your-key accesskey access-key secret secrets mysecret my-secret my_secret
    topsecret top-secret supersecret super-secret verysecret yoursecret your-secret your_secret
    thesecret secretkey secret-key secret_key secrettoken secret-token secret_token clientsecret
    client-secret client_secret sharedsecret shared-secret hush confidential private classified
    password passwords passwd passw0rd p@ssword p@ssw0rd pa55word pass pwd mypassword my-password
    my_password yourpassword your-password your_password thepassword passphrase pin credential
    credentials cred creds login logon signin changeme change-me change_me changeit change-it
    changethis change-this change_this pleasechange please-change replaceme replace-me replace_me
    replacethis replace-this fillme fill-me fillin insert inserthere insert-here paste pastehere
    paste-here setme set-me editme edit-me todo fixme tbd xxx xxxx xxxxx xxxxxx xxxxxxxx yyy zzz
    placeholder place-holder placehere undefined null nil none nan void empty blank nothing unset
    default defaults initial unknown anonymous redacted hidden masked value values string text data
    foo-bar abc abcd abcde abcdef abcdefg abcdefgh abc123 a b c x y z aa bb aaa bbb aaaa aaaaa
    aaaaaa aaaaaaaa asdf asdfgh asdfghjkl qwe qwert qwerty qwertyuiop qwerty123 qazwsx 1qaz2wsx
    1q2w3e 1q2w3e4r zxcvbn zxcvbnm azerty qwertz q1w2e3r4 0 1 2 3 4 5 6 7 8 9 00 000 0000 00000
    000000 00000000 11 111 1111 11111 111111 11111111 12 123 1234 12345 123456 1234567 12345678
    123456789 1234567890 0123456789 123123 121212 112233 123321 123abc 654321 987654321 666666
    696969 777777 888888 999999 102030 131313 2000 2024 2025 2026 deadbeef cafebabe c0ffee 42 admin
    admins administrator root sudo superuser user users username user-name guest guests public
    owner operator operators oncall on-call viewer viewers view operate produce producer producers
    consumer consumers publisher publishers subscriber client clients service services server
    backend frontend gateway gateways proxy api app apps application web website site mobile job
    jobs worker workers cron batch bot robot system internal external local localhost local-dev dev
    devel develop developer developers development stage staging integration qa uat sandbox preprod
    prod production live master main primary secondary replica headgate head-gate hg hg_ hg-token
    hg_token hg_test hg_secret hg_example kafka redis spark docker kubernetes k8s postgres
    postgresql mysql mongo mongodb rabbitmq elastic grafana prometheus confluent strimzi karapace
    zookeeper jenkins github gitlab oracle linux ubuntu debian cisco apache nginx python java node
    javascript shop store orders order payments payment checkout check-out cart deals deal
    deal-admin deals-admin clicks click web-shop webshop archive documents document invoice
    invoices customer customers product products catalog inventory shipping billing account
    accounts analytics events event topic topics message messages record records etl crm erp cms
    monitor monitoring mirror replay me mine you yours us team ops devops sre it support helpdesk
    security letmein let-me-in open opensesame open-sesame opensaysme welcome hallo hi hey iloveyou
    ilove monkey dragon football baseball basketball soccer hockey shadow sunshine princess
    superman batman trustno1 starwars michael jordan jennifer jessica ashley daniel thomas robert
    charlie george hunter hunter2 ranger buster pepper ginger cookie cheese banana summer winter
    spring autumn computer internet access freedom whatever matrix magic ninja mustang harley
    ferrari porsche killer fuckyou flower lovely love god jesus correcthorsebatterystaple
    correct-horse-battery-staple old new fixed ok yes no true false on off enabled disabled any all
    everyone everybody someone nobody lorem ipsum loremipsum alice bob carol eve mallory john jane
    johndoe john-doe jdoe max shop-token orders-token checkout-token oncall-token payments-token
    web-token headgate-token kafka-token gateway-token user-token dev-token prod-token
    staging-token <token> <secret> <password> <your-token> $token ${token} {token} [token] %token%
    "test" 'test' ... ---
"""
WORDS: Final = frozenset(("", *_TEXT.split()))
_ENDINGS: Final = ("", "1", "2", "3", "12", "123", "1234", "!", "\n")


def is_well_known(digest: str, name: str) -> bool:
    """Return whether a hash is that of a well-known word, or of the producer's own name.

    Args:
        digest: SHA-256 in hexadecimal digits, in lower case.
        name: The producer's name.
    """
    return digest in _hashes() or any(digest == _sha256(text) for text in _variants(name))


@cache
def _hashes() -> frozenset[str]:
    return frozenset(_sha256(text) for word in WORDS for text in _variants(word))


def _variants(word: str) -> Iterator[str]:
    """Yield the word as people write it, also with the newline of `echo`."""
    for written in {word, word.capitalize(), word.upper()}:
        for ending in _ENDINGS:
            yield f"{written}{ending}"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
