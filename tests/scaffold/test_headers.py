"""What the names of columns mean, in every language of the table of words, and what is left to a person."""

import pytest

from rag_eval_pipeline.scaffold.headers import WORDS, bare, role_of, says_truth

SIGNS = {"mark", "place", "truth", "wrong", "yes", "no"}
LANGUAGES = {"de", "fr", "es", "pt", "it", "nl", "pl", "zh", "ja", "ko"}


def test_every_word_of_the_table_is_found_in_its_role():
    said = [
        (role, word)
        for role in WORDS
        for language, words in WORDS[role].items()
        if language != "names"
        for word in words
    ]

    assert [(role, word, role_of(word)) for role, word in said if role not in SIGNS and role_of(word) != role] == []
    assert [word for words in WORDS["truth"].values() for word in words if not says_truth(word)] == []


@pytest.mark.parametrize("role", sorted(WORDS.keys() - {"mark", "place", "conversation", "turn", "history", "facts"}))
def test_every_role_has_words_in_every_language(role):
    assert LANGUAGES - WORDS[role].keys() == set()


HEADERS = {
    "de": "Fragen-ID, Kundenfrage, Musterantwort (Soll), Akzeptierte Antworten, Quelldokument, Seite (PDF), Textstellen, Fragetyp, Schwierigkeitsgrad, Beantwortbar, Kommentar zur Antwort",
    "fr": "N°, Question de l'utilisateur, Réponse attendue, Réponses acceptées, Document source, N° de page, Extrait, Type de question, Difficulté, Répondable, Date de la réponse",
    "es": "Código, PREGUNTA, Respuesta correcta, Respuestas aceptadas, Fuente de la respuesta, Pág., Fragmento, Tipo de pregunta, Dificultad, ¿Tiene respuesta?, Fecha",
    "pt": "Nº, Perguntas, Resposta esperada, Respostas aceites, Ficheiro, Página, Trecho, Tipo de pergunta, Dificuldade, Tem resposta, Autor da resposta",
    "it": "Numero, Domande, Risposta corretta, Risposte accettate, Documenti, Pagina, Estratto, Tipo di domanda, Difficoltà, Ha risposta, Stato",
    "nl": "Vraagnummer, Vragen, Verwacht antwoord, Alternatieve antwoorden, Bestandsnaam, Blz., Tekstfragment, Vraagtype, Moeilijkheid, Beantwoordbaar, Opmerking",
    "pl": "Lp., Pytanie klienta, Odpowiedź wzorcowa, Akceptowane odpowiedzi, Źródło, Strona [PDF], Fragment, Rodzaj pytania, Trudność, Czy jest odpowiedź, Uwagi",
    "zh": "问题编号, 问题（必填）, 标准答案, 其他答案, 来源文件, 页码, 原文, 问题类型, 难度, 是否可回答, 备注",
    "ja": "質問番号, 質問（必須）, 模範解答, 別解, 参照文書, ページ番号, 根拠, 質問の種類, 難易度, 回答可否, 回答日",
    "ko": "질문 번호, 질문, 모범 답변, 허용 답변, 출처 문서, 페이지, 근거, 질문 유형, 난이도, 답변 가능, 답변 날짜",
}  # fmt: skip
ROLES = [
    "source_id",
    "question",
    "answer",
    "answers",
    "document",
    "page",
    "passage",
    "query_type",
    "difficulty",
    "answerable",
    "other",
]


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_role_of_headers_as_people_write_them(headers):
    assert [role_of(name) for name in headers.split(", ")] == ROLES


@pytest.mark.parametrize("name", ["page [pdf]", "Page (PDF)", "Page（PDF）", "page【PDF】"])
def test_remarks_and_units_in_brackets_do_not_count(name):
    assert bare(name) == "page"
    assert bare("価格（円）") == "価格"


FLAGS = {
    "de": ("Frage;Antwort;Beantwortbar\nWas?;a;ja\nWer?;;nein\n", [False, True]),
    "pt": ("Pergunta;Resposta;Sem resposta\nO quê?;a;não\nQuem?;;SIM\n", [False, True]),
    "ja": ("質問;回答;回答不可\n何;一;いいえ\n誰;;はい\n", [False, True]),
}


@pytest.mark.parametrize(("table", "expected"), FLAGS.values(), ids=FLAGS)
def test_flags_are_read_in_the_language_of_the_table(planned, table, expected):
    assert [question.is_impossible for question in planned({"q.csv": table}).questions] == expected


DOUBTS = {
    # table, what has to be filled in, columns to choose from
    "answer and response":  ("question,answer,response\nWho?,Ann,Ann Lee\n",                     ["answer"],             ['"answer"', '"response"']),
    "the same twice":       ("question,answer,response\nWho?,Ann,Ann\n",                         [],                     []),
    "number beside a text": ("question,answer,answer_text\nHow deep?,31,31 metres\n",            ["answer"],             ['"answer"', '"answer_text"']),
    "two annotators":       ("question,Answer A,Answer B\nWho?,Ann,Ann Lee\n",                   ["answer"],             ['"Answer A"', '"Answer B"']),
    "two languages":        ("Question (EN),Frage (DE),Answer (EN)\nWho?,Wer?,Ann\n",            ["question"],           ['"Question (EN)"', '"Frage (DE)"']),
    "a truth beside it":    ("question,answer,golden response\nWho?,Ann,Ann Lee\n",              [],                     []),
    "two documents":        ("question,answer,document,source file\nWho?,Ann,x.md,y.md\n",       ["contexts"],           ['[{file: "document"}]', '[{file: "source file"}]']),
    "two links":            ("question,answer,Link A,Link B\nWho?,Ann,https://a.org/1,https://a.org/2\n", ["urls"],      ['"Link A"', '"Link B"']),
}  # fmt: skip


@pytest.mark.parametrize(("table", "missing", "choices"), DOUBTS.values(), ids=DOUBTS)
def test_columns_that_fit_equally_well_are_left_to_a_person(started, table, missing, choices):
    proposal = started({"q.csv": table, "x.md": "Ann", "y.md": "Ann Lee"})

    assert [sentence.split(":")[0] for sentence in proposal.missing] == missing
    shown = [line for line in proposal.text.splitlines() if line.startswith(tuple(f"#  {role}: " for role in missing))]
    assert all(f": {choice} " in line for choice, line in zip(choices, shown, strict=False))
    assert len(shown) >= len(choices)
    assert not any(name.strip('"') in proposal.text.partition("metadata:")[2].partition("\n")[0] for name in choices)
