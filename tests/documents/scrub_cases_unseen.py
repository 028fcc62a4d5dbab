"""Cases that were written after the rules of the scrubber, and for which none was changed: its rates on what is new.

Marked as in ``scrub_cases``.
"""

from __future__ import annotations

from tests.documents.scrub_cases import ADDRESS, EMAIL, ID, NAME, PHONE, TAX, WEBSITE, marked_case

_LISTED: dict[str, list[tuple[str, str, str]]] = {
    "call signs": [
        (NAME, "KQED-FM 88.5", "*KQED 88.5FM on *kqed.org"),
        (NAME, "WFMZ-TV", "*WFMZ69 *69news@wfmz.com WFMY"),
        (NAME, "KXXV/KRHD", "*KXXV-DT *krhd.com"),
    ],
    "short names": [
        (NAME, "CBS Radio", "*CBS *cbsradio.com cabs"),
        (NAME, "ION", "*ION *iontelevision.com question"),
        (NAME, "QVC", "*QVC's *shopqvc.com"),
    ],
    "ampersand": [
        (NAME, "Ben & Jerry's", "*Ben ?and *Jerrys *benjerry.com"),
        (NAME, "Smith & Wesson", "*Smith-Wesson *smithandwesson.com"),
        (NAME, "R&R Partners", "*R&R *R ?and *R partners"),
    ],
    "initials": [
        (NAME, "Public Broadcasting Atlanta", "*PBA *pba.org"),
        (NAME, "University of Ralston", "*UOR *UR campus"),
        (NAME, "Hearne Radio Group LLC", "*HRG hrs"),
    ],
    "one name alone": [
        (NAME, "Maria Delgado-Ruiz", "*Maria *Delgado *Ruiz ruins"),
        (NAME, "Van der Berg Studio", "*Berg *vandenberg.nl *VanderBerg studio"),
        (NAME, "D'Angelo Sons", "*Angelo *DAngelo songs"),
    ],
    "OCR confusions": [
        (NAME, "Millbrook", "*Mi11brook *MILLBR0OK *Mlllbrook"),
        (NAME, "Warner", "*Wamer *VVarner *Warncr"),
        (NAME, "KOSI", "*K0SI *KO5I *K0S1"),
        (NAME, "Quillon", "*Quil1on *Ouillon *Qui11on"),
        (TAX, "47-1108265", "*47-11O8265 *47-ll08265"),
        (EMAIL, "ar@clarnell.com", "*ar@damell.com *ar@clarne11.com"),
    ],
    "homoglyphs": [
        (NAME, "WPXI", "*ШPXI *WРХІ"),
        (NAME, "Delgado", "*Dеlgаdо *Ｄelgado"),
    ],
    "addresses": [
        (ADDRESS, "221B Baker Street London NW1 6XE", "*221B *Baker ?Street *NW1 *6XE"),
        (ADDRESS, "One Penn Plaza New York NY 10119", "?One *Penn ?Plaza *10119-0002"),
        (ADDRESS, "4 Privet Drive Little Whinging", "*4 *Privet ?Dr *Whinging qty 4"),
        (ADDRESS, "1600 Pennsylvania Ave NW Washington DC 20500", "*1600 *Pennsylvania 16.00"),
    ],
    "phones": [
        (PHONE, "212.555.0187", "*(212)555-0187 *+1.212.555.0187"),
        (PHONE, "+33 1 42 68 53 00", "*01 *42 *68 *53 *00 *0142685300"),
        (PHONE, "1 (888) 555-0123", "*888-555-0123 *8885550123 888 5550199"),
    ],
    "emails": [
        (EMAIL, "jane.doe@goarn.com", "*jane@ *goarn ?. ?com *JaneDoe@goarn.com"),
        (EMAIL, "accounts.payable@wol-media.de", "*wol-media.de *@wol-media.de Accounts Payable"),
    ],
    "websites": [
        (WEBSITE, "http://www.k-zone.net/index.html", "*k-zone.net *kzone.net index"),
        (WEBSITE, "millbrook.org", "*giving.millbrook.org/donate *Millbrook"),
    ],
    "tax numbers": [
        (TAX, "GB 123 4567 89", "*GB123456789 *123.4567.89"),
        (ID, "C-00482-X", "*C00482X *C-00482 page 482"),
        (TAX, "113 61779 RT", "*11361779RT *11361779"),
    ],
    "legal suffixes": [
        (NAME, "Delgado Sp. z o.o.", "*Delgado *DELGADO ?Sp. ?z ?o.o."),
        (NAME, "Bryn Holdings Pty Ltd", "*Bryn *Bryn ?Holdings holding"),
    ],
    "line breaks and glue": [
        (NAME, "Millbrook Media", "*Mill- *brook mills"),
        (EMAIL, "billing@goarnworks.com", "*billing@goarn *works.com *Contact:billing@goarnworks.com"),
    ],
    "over": [
        (NAME, "Ember Lane", "December member remember lane"),
        (NAME, "Ander Group", "Sander standard group"),
        (NAME, "Rice Systems", "price prices system"),
        (NAME, "Voice One", "Invoice one invoices"),
        (NAME, "Tract Media", "Contract contracts media"),
        (NAME, "Otal Co", "Total totals"),
        (PHONE, "(202) 555-0142", "2020 0142 5550"),
        (TAX, "47-1108265", "1108 8265 $47.11 471,108.00"),
        (ADDRESS, "100 Elm Road Alton IL 62002", "100% 100.00 $62.02 IL"),
        (ID, "20117", "$201.17 2011 20,117.00 120117"),
    ],
}

UNSEEN_CASES = tuple(marked_case(group, *row) for group, rows in _LISTED.items() for row in rows)
